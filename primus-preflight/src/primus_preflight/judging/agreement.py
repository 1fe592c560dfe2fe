"""Facts that must be the same on all nodes, and on all devices of a node."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from primus_core.experiment import Value
from primus_preflight.judging.report import Fault
from primus_preflight.model import Gathered, Node, Probe
from primus_preflight.probes.agreeing import DEVICES_AGREE, MUST_AGREE

_CLOSE = 0.02
"""Sizes may differ by this part: firmware takes some of the memory."""
_REMEDY = "Bring all nodes to the same state, or leave the odd ones out."


def differing(gathered: Gathered) -> Iterator[Fault]:
    """What is different inside a node and between nodes."""
    for node in gathered.nodes:
        yield from _inside(node)
    yield from _fewer(gathered)
    for name, facts in sorted(MUST_AGREE.items()):
        for fact in facts:
            yield from _compared(f"{name}: {fact.replace('_', ' ')}", _values(gathered, name, fact))


def _values(gathered: Gathered, name: str, fact: str) -> dict[int, Value]:
    """By node; those that could not see it are left out."""
    found = ((node.node, probe) for node in gathered.nodes for probe in node.probes if probe.name == name)
    return {node: probe.facts[fact] for node, probe in found if _has(probe, fact)}


def _inside(node: Node) -> Iterator[Fault]:
    for name, facts in sorted(DEVICES_AGREE.items()):
        probes = {probe.device: probe for probe in node.probes if probe.name == name and probe.device is not None}
        for fact in facts:
            values = {device: probe.facts[fact] for device, probe in probes.items() if _has(probe, fact)}
            odd, usual = _odd(values)
            if odd:
                told = ", ".join(f"device {device} has {_text(values[device])}" for device in sorted(odd))
                what = f"its devices differ: {fact.replace('_', ' ')}"
                evidence = (f"{told}; the others {_text(usual)}",)
                yield Fault(
                    kind="differs", level="warning", what=what, nodes=(node.node,), evidence=evidence, remedy=_REMEDY
                )


def _fewer(gathered: Gathered) -> Iterator[Fault]:
    """Nodes on which accelerators are missing that others have."""
    most = max((node.devices for node in gathered.nodes), default=0)
    for node in gathered.nodes:
        if node.devices < most:
            yield Fault(
                kind="devices",
                level="failure",
                what="has fewer accelerators than other nodes",
                nodes=(node.node,),
                evidence=(f"{node.devices} of {most}",),
                remedy="Look at the kernel's log (dmesg) for a device that fell off its bus, then restart the node.",
            )


def _compared(name: str, values: Mapping[int, Value]) -> Iterator[Fault]:
    odd, usual = _odd(values)
    if not odd:
        return
    counts = Counter(_text(values[node]) for node in odd)
    others = f"{_text(usual)} on {len(values) - len(odd):,}"
    yield Fault(
        kind="differs",
        level="warning",
        what=f"differs from most other nodes: {name}",
        nodes=tuple(sorted(odd)),
        evidence=tuple(f"{value} on {count:,}, {others}" for value, count in sorted(counts.items())),
        remedy=_REMEDY,
    )


def _odd(values: Mapping[int, Value]) -> tuple[list[int], Value]:
    """Who has not what most have, and what those have; of equally many, what comes first in order counts."""
    counts = Counter(_text(value) for value in values.values())
    if not counts:
        return [], None
    most = max(sorted(counts), key=counts.__getitem__)
    usual = next(value for value in values.values() if _text(value) == most)
    return [key for key, value in values.items() if not _same(value, usual)], usual


def _same(value: Value, usual: Value) -> bool:
    if isinstance(value, int | float) and isinstance(usual, int | float) and abs(usual) > 1 << 20:
        return abs(value - usual) <= _CLOSE * abs(usual)
    return value == usual


def _has(probe: Probe, fact: str) -> bool:
    return probe.facts.get(fact) is not None


def _text(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
