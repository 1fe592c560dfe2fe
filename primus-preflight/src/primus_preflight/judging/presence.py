"""Who answered, who met the others, and whose clock is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from primus_core.quantities import utc_time
from primus_preflight.judging.blame import blame_pairs
from primus_preflight.judging.limits import Limits
from primus_preflight.judging.middle import median
from primus_preflight.judging.names import Names
from primus_preflight.judging.report import Fault, Verdict
from primus_preflight.model import Gathered, Measurement, Node

_REACH_REMEDY = "Look at its interface, route and firewall, and at NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME."


def absent(gathered: Gathered, names: Names) -> Iterator[Fault]:
    """Nodes that were expected and left nothing."""
    here = {node.node for node in gathered.nodes}
    missing = tuple(node for node in range(gathered.expected_nodes) if node not in here)
    if missing:
        yield Fault(
            kind="missing",
            level="missing",
            what="did not answer",
            nodes=missing,
            evidence=(f"{len(here):,} of {gathered.expected_nodes:,} nodes have answered", *gathered.said),
            remedy="Log in to it; look whether it is up, reaches the others and sees the run's folder (set "
            "PRIMUS_WORKSPACE to one that all nodes share). Leave it out.",
        )


def unfinished(gathered: Gathered) -> Iterator[Fault]:
    """Nodes that began and never said that they had said all: whatever their looks found, nobody knows the rest."""
    for node in gathered.nodes:
        if not node.complete:
            yield Fault(
                kind="unfinished",
                level="error",
                what="did not come to its end: its agent died, or was given up",
                nodes=(node.node,),
                evidence=(_last_words(node), *_said_of(node, gathered)),
                remedy="Look at what ended it (the agent's log, the kernel's: dmesg), then run the preflight again.",
            )


def _last_words(node: Node) -> str:
    if not node.ended:
        return f"began at {utc_time(node.started)}, and told nothing more"
    return f"told of {len(node.probes)} looks at {utc_time(node.ended)}, and nothing more"


def _said_of(node: Node, gathered: Gathered) -> Iterator[str]:
    """What the launcher says of this node, or of none in particular."""
    for text in gathered.said:
        if text.startswith(f"node {node.node} (") or not text.startswith("node "):
            yield text


def lost(measurements: Sequence[Measurement], gathered: Gathered) -> Iterator[Fault]:
    """Nodes that did not come to the meeting of all, or left it.

    A node that most others could not reach is bad itself; what it says of others then says nothing of them.
    """
    meetings = [one for one in measurements if one.test == "meeting" and one.status != "ok"]
    missed = Counter(one.nodes[1] for one in meetings if len(one.nodes) == 2)
    broken = {one.nodes[1]: one.error for one in meetings if len(one.nodes) == 2 and one.status == "error"}
    others = max(1, len(gathered.nodes) - 1)
    alone = {node for node, count in missed.items() if count > 1 and count > others / 2}
    worked = {node for one in measurements if one.status == "ok" and one.test != "meeting" for node in one.nodes}
    named = {one.nodes[0]: one for one in meetings if len(one.nodes) == 1 and not (alone and one.nodes[0] in worked)}
    for node in sorted(alone | set(named)):
        if node in broken:
            yield _broke(node, broken[node], well=node in worked and node not in named)
            continue
        error = named[node].error if node in named else f"{missed[node]} of {others} other nodes could not reach it"
        what = "could not be reached by the other nodes"
        yield Fault(
            kind="unreachable", level="failure", what=what, nodes=(node,), evidence=(error,), remedy=_REACH_REMEDY
        )
    for one in meetings:
        if len(one.nodes) == 2 and not {*alone, *named} & {*one.nodes}:
            yield _cannot(one.nodes[0], one.error)


def _broke(node: int, error: str, *, well: bool) -> Fault:
    """A node that was lost while it held the meeting.

    Args:
        well: it took part in the next one.
    """
    remedy = "Look at what ended it or cut it off: the agent's log, the kernel's (dmesg), its network."
    what = "held the meeting of the nodes and was lost; they met again"
    level: Verdict = "warning" if well else "failure"
    return Fault(kind="unreachable", level=level, what=what, nodes=(node,), evidence=(error,), remedy=remedy)


def unreached(measurements: Sequence[Measurement], names: Names) -> Iterator[Fault]:
    """Nodes and links over which no connection can be made."""
    tried = {(one.nodes[0], one.nodes[1]): one for one in measurements if one.test == "reach"}
    blame = blame_pairs([pair for pair, one in tried.items() if one.status != "ok"], list(tried))
    for node in blame.nodes:
        errors = sorted({one.error for pair, one in tried.items() if node in pair and one.error})
        yield _cannot(node, *errors[:1])
    for sender, receiver in blame.links:
        what = f"{names.host(sender)} cannot connect to {names.host(receiver)}"
        evidence = (tried[sender, receiver].error,)
        nodes = (sender, receiver)
        yield Fault(kind="link", level="failure", what=what, nodes=nodes, evidence=evidence, remedy=_REACH_REMEDY)


def _cannot(node: int, *errors: str) -> Fault:
    what = "cannot connect to other nodes, or they to it"
    return Fault(kind="unreachable", level="failure", what=what, nodes=(node,), evidence=errors, remedy=_REACH_REMEDY)


def clocks(measurements: Sequence[Measurement], limits: Limits) -> Iterator[Fault]:
    """Clocks that are off the median of all, whichever node's they were compared with."""
    told = [one for one in measurements if one.test == "clock" and one.values]
    ahead = {one.nodes[-1]: one.values[0] for one in told}
    for one in told:
        ahead.setdefault(one.nodes[0], 0.0)
    middle = median(ahead.values()) if ahead else 0.0
    for node, seconds in sorted(ahead.items()):
        off = seconds - middle
        if abs(off) > limits.clock_warning:
            yield Fault(
                kind="clock",
                level="failure" if abs(off) > limits.clock_failure else "warning",
                what="its clock is wrong",
                nodes=(node,),
                evidence=(f"{abs(off):.4g} s {'ahead of' if off > 0 else 'behind'} the median of all nodes",),
                remedy="Start its time service (chronyd, systemd-timesyncd) and look at what it says.",
            )
