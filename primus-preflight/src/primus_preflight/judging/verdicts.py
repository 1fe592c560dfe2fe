"""All judgements of one preflight, put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from attrs import evolve

from primus_preflight.judging.agreement import differing
from primus_preflight.judging.comparing import comparisons
from primus_preflight.judging.limits import Limits
from primus_preflight.judging.looks import failed_alone, looked, untested
from primus_preflight.judging.machines import sharing
from primus_preflight.judging.names import Names
from primus_preflight.judging.performance import Judging, slow
from primus_preflight.judging.presence import absent, clocks, lost, unfinished, unreached
from primus_preflight.judging.references import below_baseline
from primus_preflight.judging.report import FAULTY, RANKING, Fault, Judged, Report, Verdict, worst
from primus_preflight.judging.specification import Hardware, below_specification
from primus_preflight.model import Gathered, Measurement

_MOST_EVIDENCE = 6
"""Figures of one fault; what is more is in the measurements."""
_NOT_SPEED = frozenset({"meeting", "clock", "reach", "workers"})


def judge(gathered: Gathered, limits: Limits, baseline: Gathered | None = None) -> Report:
    """Say of each node, and of all, whether it is good; the same in whatever order the parts of it came.

    Args:
        baseline: an earlier preflight whose figures must be reached again.
    """
    gathered = _ordered(gathered)
    names = Names.of(gathered)
    faults = merged(_faults(gathered, limits, names, baseline))
    nodes = tuple(_nodes(gathered, names, faults))
    everything = tuple(fault.level for fault in faults)
    return Report(
        run_id=gathered.run_id,
        verdict=_together(everything) if gathered.nodes or gathered.expected_nodes else "error",
        nodes=nodes,
        faults=faults,
        comparisons=tuple(comparisons(gathered.all_measurements, Hardware.of(gathered))),
        limits=limits,
        gathered=gathered,
    )


def _together(levels: tuple[Verdict, ...]) -> Verdict:
    """A missing node is a failure of all."""
    level = worst(levels)
    return "failure" if level == "missing" else level


def _faults(gathered: Gathered, limits: Limits, names: Names, baseline: Gathered | None) -> Iterator[Fault]:
    measurements = gathered.all_measurements
    speeds = [one for one in measurements if one.test not in _NOT_SPEED]
    hardware = Hardware.of(gathered)
    plain = [
        *absent(gathered, names),
        *unfinished(gathered),
        *lost(measurements, gathered),
        *unreached(measurements, names),
        *clocks(measurements, limits),
        *looked(gathered),
        *failed_alone(measurements),
        *differing(gathered),
    ]
    accused = frozenset(node for fault in plain if fault.level in FAULTY for node in fault.nodes)
    return chain(
        plain,
        slow(speeds, Judging(limits=limits, names=names, models=hardware.models, sharing=sharing(gathered))),
        below_specification(speeds, hardware, limits),
        below_baseline(speeds, baseline, names, limits),
        untested(gathered, measurements, accused),
    )


def merged(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """The same thing on many nodes is one fault; so is one thing that several figures tell of one node."""
    by_node: dict[tuple[str, str, tuple[int, ...]], list[Fault]] = {}
    for fault in faults:
        by_node.setdefault((fault.kind, fault.what, fault.nodes), []).append(fault)
    together: dict[tuple[object, ...], list[Fault]] = {}
    for some in by_node.values():
        one = _joined(some)
        apart = one.nodes if one.kind in ("link", "group", "slow") else ()
        together.setdefault((one.kind, one.what, one.level, one.remedy, apart), []).append(one)
    found = (_joined(some) for some in together.values())
    return tuple(sorted(found, key=lambda one: (-RANKING.index(one.level), one.kind, one.nodes, one.what)))


def _joined(faults: list[Fault]) -> Fault:
    """One fault of all; only the worst figures are told."""
    if len(faults) == 1:
        return faults[0]
    level = worst(tuple(fault.level for fault in faults))
    evidence = dict.fromkeys(text for fault in faults if fault.level == level for text in sorted(fault.evidence))
    told = tuple(sorted(evidence))
    link = faults[0].kind == "link"
    nodes = faults[0].nodes if link else tuple(sorted({node for fault in faults for node in fault.nodes}))
    more = len(told) - _MOST_EVIDENCE
    told = (*told[:_MOST_EVIDENCE], f"and {more:,} more") if more > 0 else told
    return evolve(faults[0], level=level, nodes=nodes, evidence=told)


def _nodes(gathered: Gathered, names: Names, faults: tuple[Fault, ...]) -> Iterator[Judged]:
    own: dict[int, list[tuple[Verdict, str]]] = {}
    for fault in faults:
        level: Verdict = fault.level if fault.blames_nodes else "warning"
        for node in fault.nodes:
            own.setdefault(node, []).append((level, fault.what))
    for node in sorted({*range(gathered.expected_nodes), *(one.node for one in gathered.nodes), *own}):
        levels = tuple(level for level, _ in own.get(node, ()))
        texts = tuple(text for _, text in own.get(node, ()))
        yield Judged(node=node, host=names.hosts.get(node, ""), verdict=worst(levels), faults=texts)


def _ordered(gathered: Gathered) -> Gathered:
    nodes = (
        evolve(node, measurements=tuple(sorted(node.measurements, key=_place)))
        for node in sorted(gathered.nodes, key=lambda one: one.node)
    )
    return evolve(gathered, nodes=tuple(nodes), measurements=tuple(sorted(gathered.measurements, key=_place)))


def _place(one: Measurement) -> tuple[object, ...]:
    device = -1 if one.device is None else one.device
    place = (one.test, one.dtype, one.size_bytes, one.round, one.nodes, device, one.ranks)
    return (*place, one.status, one.values, one.error)
