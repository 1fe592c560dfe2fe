"""Measurements beside those of their peers in the same run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from attrs import evolve, field

from primus_core.records import frozen
from primus_preflight.judging.blame import Blame, Group, blame_groups, blame_pairs
from primus_preflight.judging.limits import Limits
from primus_preflight.judging.middle import median
from primus_preflight.judging.names import Names, test_name, what_is_slow
from primus_preflight.judging.peers import Figure, Peers, figures_of
from primus_preflight.judging.report import Fault, Verdict
from primus_preflight.model import Measurement

PAIRS = frozenset({"inter-p2p"})
"""Tests of a sender and a receiver."""
_LEVELS: tuple[Verdict, ...] = ("failure", "warning")
_LINK_REMEDY = "Look at the cables, switch ports and routes between the two; their other transfers are as they must be."
_MOST_DEVICES = 8
T = TypeVar("T")


@frozen(kw_only=True)
class Judging:
    """What all judgements of one run share."""

    limits: Limits
    names: Names
    models: Mapping[int, str] = field(factory=dict)
    """Names of the nodes' accelerators: different ones are no peers."""
    sharing: frozenset[int] = frozenset()
    """Nodes that compute with the same processors: see `primus_preflight.judging.machines`."""


@frozen(kw_only=True)
class _Trials:
    """All groups in which one test of one size was run."""

    label: str
    levels: Mapping[Group, Verdict]
    """Of the groups that can be judged."""
    told: Mapping[Group, str]
    """What each of them gave, in words."""
    shares: Mapping[Group, float] = field(factory=dict)
    """Parts of the best, of those that gave a figure."""

    def of_node(self, node: int, bad: Collection[Group]) -> str:
        """What its bad groups say against a node."""
        own = [group for group in bad if node in group]
        if len(own) == 1:
            return self.told[own[0]]
        every = sum(node in group for group in self.levels)
        slow = [self.shares[group] for group in own if group in self.shares]
        failed = [self.told[group] for group in own if group not in self.shares]
        share = f"{100 * median(slow):.0f} % of the best" if slow else failed[0]
        return f"{self.label}: {len(own)} of its {every} groups are slow or fail: {share}"


def slow(measurements: Sequence[Measurement], by: Judging) -> Iterator[Fault]:
    """Faults of what ran, but more slowly than its peers, and of groups that failed."""
    alone = [one for one in measurements if len(one.nodes) == 1 and one.nodes[0] not in by.sharing]
    for peers in _grouped(figures_of(alone), lambda one: _alike(one.measurement, by)).values():
        yield from _slow_alone(peers, by)
    together = [one for one in measurements if len(one.nodes) > 1]
    pairs = [fault for some in _by_size(one for one in together if one.test in PAIRS) for fault in _pairs(some, by)]
    yield from pairs
    known = frozenset(fault.nodes[0] for fault in pairs if fault.kind == "slow" and fault.level == "failure")
    for some in _by_size(one for one in together if one.test not in PAIRS):
        yield from _groups(some, by, known)


def _alike(one: Measurement, by: Judging) -> tuple[object, ...]:
    return one.test, one.size_bytes, one.dtype, one.ranks, by.models.get(one.nodes[0], "")


def _by_size(measurements: Iterable[Measurement]) -> list[list[Measurement]]:
    return list(_grouped(measurements, lambda one: (one.test, one.size_bytes, one.dtype)).values())


def _slow_alone(figures: Sequence[Figure], by: Judging) -> Iterator[Fault]:
    peers = Peers.of(figures)
    judged = [(peers.level(one, by.limits), one) for one in figures]
    bad = _grouped((pair for pair in judged if pair[0] != "pass"), lambda pair: (pair[0], pair[1].measurement.nodes))
    for some in bad.values():
        level, first = some[0]
        evidence = _devices([one for _, one in some], peers)
        yield slow_node(first.measurement.test, first.measurement.nodes, level, (evidence,))


def _devices(figures: Sequence[Figure], peers: Peers) -> str:
    """``gemm 128.0 MiB bf16: 433.2 of 733.4 TFLOP/s, 59 % of the best (devices 0, 1, 2)``; the worst is told."""
    worst = min(figures, key=lambda one: one.value)
    devices = sorted(one.measurement.device for one in figures if one.measurement.device is not None)
    where = f"device{'s' * (len(devices) > 1)} {', '.join(map(str, devices[:_MOST_DEVICES]))}"
    return f"{test_name(worst.measurement)}: {peers.told(worst)}" + (f" ({where})" if devices else "")


def _pairs(measurements: Sequence[Measurement], by: Judging) -> Iterator[Fault]:
    figures = figures_of(measurements)
    trials = _tried(measurements, [figures] if figures else [], by, lambda one: by.names.way(one.nodes))
    yield from _by_level(trials, measurements[0].test, _blame_pairs, by)


def _groups(measurements: Sequence[Measurement], by: Judging, known: frozenset[int]) -> Iterator[Fault]:
    """Only groups of as many nodes are peers; the only one of its size is neither good nor bad by its figure.

    Args:
        known: nodes with slow transfers, which explain what is slow with them.
    """
    alike = _grouped(figures_of(measurements), lambda one: (len(one.measurement.nodes), one.measurement.ranks))
    peers = [some for some in alike.values() if len(some) > 1]
    trials = _tried(measurements, peers, by, lambda one: f"of {by.names.some(one.nodes)}")
    rest = {group: level for group, level in trials.levels.items() if level == "pass" or known.isdisjoint(group)}
    yield from _by_level(evolve(trials, levels=rest), measurements[0].test, blame_groups, by)


def _tried(
    measurements: Sequence[Measurement],
    alike: Iterable[Sequence[Figure]],
    by: Judging,
    where: Callable[[Measurement], str],
) -> _Trials:
    """What became of each group; one that failed and worked another time has worked."""
    failed = {one.nodes: one for one in measurements if one.status != "ok"}
    worked = {one.nodes for one in measurements if one.status == "ok"}
    levels: dict[Group, Verdict] = {group: "failure" for group in failed if group not in worked}
    label = test_name(measurements[0])
    told = {group: f"{label} {where(failed[group])}: {failed[group].error or failed[group].status}" for group in levels}
    shares: dict[Group, float] = {}
    for figures in alike:
        peers = Peers.of(figures)
        for one in figures:
            group = one.measurement.nodes
            levels[group] = peers.level(one, by.limits)
            shares[group] = one.value / peers.best if peers.best else 1.0
            if levels[group] != "pass":
                told[group] = f"{label} {where(one.measurement)}: {peers.told(one)}"
    return _Trials(label=label, levels=levels, told=told, shares=shares)


def _by_level(
    trials: _Trials, test: str, blame: Callable[[Sequence[Group], Sequence[Group]], Blame], by: Judging
) -> Iterator[Fault]:
    """Whom failures accuse, and whom what is doubtful accuses beside them."""
    left = dict(trials.levels)
    for level in _LEVELS:
        bad = sorted(group for group, one in left.items() if one == level)
        found = blame(bad, sorted(group for group, one in left.items() if one != level))
        for node in found.nodes:
            yield slow_node(test, (node,), level, (trials.of_node(node, bad),))
        for link in found.links:
            yield _link(link, level, trials.told[link], by)
        for group in found.unclear:
            yield _unclear(test, group, level, [trials.told[one] for one in bad if set(group) <= set(one)])
        known = set(found.nodes)
        left = {group: one for group, one in left.items() if one != level and known.isdisjoint(group)}


def _blame_pairs(bad: Sequence[Group], rest: Sequence[Group]) -> Blame:
    pairs = [(one[0], one[1]) for one in bad]
    return blame_pairs(pairs, [*pairs, *((one[0], one[1]) for one in rest)])


def slow_node(test: str, nodes: tuple[int, ...], level: Verdict, evidence: tuple[str, ...]) -> Fault:
    """The fault of nodes that are slow in a test."""
    what, remedy = what_is_slow(test)
    return Fault(kind="slow", level=level, what=what, nodes=nodes, remedy=remedy, evidence=evidence)


def _link(link: tuple[int, ...], level: Verdict, told: str, by: Judging) -> Fault:
    what = f"the link {by.names.way(link)} is slow or broken"
    return Fault(kind="link", level=level, what=what, nodes=link, remedy=_LINK_REMEDY, evidence=(told,))


def _unclear(test: str, group: Group, level: Verdict, told: Sequence[str]) -> Fault:
    remedy = f"Test them with others: --tests {test} on these nodes and some that pass."
    what = "one of these nodes, or what is between them, makes their groups slow or fail"
    return Fault(kind="group", level=level, what=what, nodes=group, remedy=remedy, evidence=tuple(told))


def _grouped(items: Iterable[T], key: Callable[[T], tuple[object, ...]]) -> dict[tuple[object, ...], list[T]]:
    found: dict[tuple[object, ...], list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found
