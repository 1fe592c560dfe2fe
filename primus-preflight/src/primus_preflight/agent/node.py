"""The agent: what one node does in a preflight."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import cast

from attrs import evolve

from primus_core.contract import RankContext
from primus_core.plan import RunPlan
from primus_core.planning.accelerators import find_accelerators
from primus_preflight.agent import plugins
from primus_preflight.agent.files import folder_of, write_node
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Look, probe_all
from primus_preflight.agent.redaction import redacted_node, redactor_of
from primus_preflight.model import Node, Probe
from primus_preflight.settings.visibility import visible

BY_HAND = ("direct", "single")
"""Launchers that start this host alone, of however many."""
GROUPS = ("host", "gpu", "network")
"""What users ask for; each is a package of `primus_preflight.probes`."""


def run(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """The task of a preflight: look at the node, write it down, and then measure it with the others.

    Nothing that needs another node happens before what this one has seen is on the disk.
    """
    folder = folder_of(plan)
    about = Looked(plan=plan, env=rank.env)
    redact = redactor_of(rank.env)

    def keep(seen: Node) -> None:
        write_node(folder, redacted_node(seen, redact))

    node = _named(about, rank.rank)
    keep(node)
    probes = probe_all(_looks(about))
    node = evolve(node, probes=probes, addresses=_addresses(probes), ended=time.time())
    keep(node)
    if meets(plan):
        from primus_preflight.meeting import meet  # here: most looks at a host need none

        node = meet(plan, rank, node, _words(plan, "tests"), keep)
        for told in _missed(node):
            rank.log("warning", told)
    keep(evolve(node, ended=time.time(), complete=True))
    return {"host": node.host, "probes": len(node.probes), "measurements": len(node.measurements)}


def _named(about: Looked, number: int) -> Node:
    """The node before anything was looked at that might not answer; accelerators are those that a rank sees."""
    found = find_accelerators(about.root)
    shown = len(visible(about.env, found.kind, found.count))
    host = about.env.get("SLURMD_NODENAME") or socket.gethostname()
    return Node(node=number, host=host, accelerator=found.kind, devices=shown, started=time.time())


def _addresses(probes: Sequence[Probe]) -> tuple[str, ...]:
    """What the look at the network's interfaces has seen, as the fact ``addresses``."""
    found = (probe.facts["addresses"] for probe in probes if "addresses" in probe.facts)
    return tuple(str(address) for some in found if isinstance(some, list) for address in some)


def _looks(about: Looked) -> Iterator[Look]:
    """All that were asked for, with the limit that was asked for."""
    seconds = about.plan.task.arguments.get("seconds")
    for look in _all_looks(about):
        yield evolve(look, seconds=seconds) if isinstance(seconds, float) else look


def _all_looks(about: Looked) -> Iterator[Look]:
    for group in _words(about.plan, "groups"):
        looks = cast("Callable[[Looked], Sequence[Look]]", import_module(f"primus_preflight.probes.{group}").looks)
        yield from looks(about)
    yield from plugins.looks(about)


def _missed(node: Node) -> Iterator[str]:
    """What of the meeting its node should tell where it runs: the others may never hear it."""
    for one in node.measurements:
        if one.test == "meeting":
            yield f"node {one.nodes[-1]}, at which the nodes meet: {one.error}"


def meets(plan: RunPlan) -> bool:
    """Whether the nodes have something to do with each other, or to measure.

    Those that are started by hand may have no folder in common, and bring node 0 what they have seen.
    """
    together = "network" in _words(plan, "groups") or plan.launcher in BY_HAND
    return bool(_words(plan, "tests")) or (plan.target.nodes > 1 and together)


def _words(plan: RunPlan, name: str) -> tuple[str, ...]:
    value = plan.task.arguments.get(name)
    return tuple(map(str, value)) if isinstance(value, list) else ()
