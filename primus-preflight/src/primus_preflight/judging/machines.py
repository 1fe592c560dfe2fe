"""Nodes that are one machine, such as containers of one host: what they compute at the same time tells nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from primus_core.experiment import Value
from primus_preflight.model import Gathered, Node


def sharing(gathered: Gathered) -> frozenset[int]:
    """Nodes without accelerators whose processors other nodes use, too: of two that differ neither is slow."""
    machines = {node.node: _machine(node) for node in gathered.nodes if node.accelerator == "cpu"}
    counts = Counter(machines.values())
    return frozenset(node for node, machine in machines.items() if machine and counts[machine] > 1)


def _machine(node: Node) -> str:
    """As its meeting told."""
    told: Mapping[str, Value] = next((probe.facts for probe in node.probes if probe.name == "meeting"), {})
    return str(told.get("machine") or "")
