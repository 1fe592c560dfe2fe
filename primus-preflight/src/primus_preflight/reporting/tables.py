"""Tables of a report: faults, nodes, figures, facts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from primus_core.experiment import Value
from primus_core.quantities import memory_size
from primus_core.render.tables import Column, Table, Tone
from primus_preflight.judging import Comparison, Fault, Judged, Report
from primus_preflight.judging.names import Names
from primus_preflight.judging.report import RANKING
from primus_preflight.model import Gathered

MOST_FAULTS = 24
_TONES: Mapping[str, Tone] = {
    "pass": "good",
    "warning": "doubtful",
    "error": "bad",
    "failure": "bad",
    "missing": "bad",
}
_MOST_NODES = 64
"""Rows of the table of nodes; of more, those that pass are left to report.json."""
_MOST_VALUES = 3
"""Different values of a fact that are told; what differs more is told by its number of values."""
_LONGEST = 90


def faults_table(report: Report) -> Table:
    """The worst first."""
    names = Names.of(report.gathered)
    left = len(report.faults) - MOST_FAULTS
    title = "What is wrong, where, and what to do"
    return Table(
        title=f"{title} ({left:,} more in report.json)" if left > 0 else title,
        columns=(Column("level"), Column("where"), Column("what is wrong"), Column("seen"), Column("what to do")),
        rows=tuple(_fault(fault, names) for fault in report.faults[:MOST_FAULTS]),
        tones=_TONES,
    )


def _fault(fault: Fault, names: Names) -> tuple[str, ...]:
    where = names.some(fault.nodes) or "all nodes"
    return fault.level, where, fault.what, "; ".join(fault.evidence), fault.remedy


def nodes_table(report: Report) -> Table:
    """The worst first; of many nodes only those that do not pass."""
    ordered = sorted(report.nodes, key=lambda one: (-RANKING.index(one.verdict), one.node))
    shown = ordered if len(ordered) <= _MOST_NODES else [one for one in ordered if one.verdict != "pass"][:_MOST_NODES]
    devices = {node.node: _devices(node.devices, node.accelerator) for node in report.gathered.nodes}
    left = len(ordered) - len(shown)
    return Table(
        title=f"Nodes ({left:,} more in report.json)" if left else "Nodes",
        columns=(Column("node"), Column("rank", "right"), Column("verdict"), Column("devices"), Column("why")),
        rows=tuple(_node(one, devices.get(one.node, "")) for one in shown),
        tones=_TONES,
    )


def _node(one: Judged, devices: str) -> tuple[str, ...]:
    return one.host or "(name not known)", str(one.node), one.verdict, devices, "; ".join(one.faults)


def _devices(count: int, kind: str) -> str:
    return f"{count} {kind}" if count else kind


def figures_table(report: Report) -> Table:
    """One row for each test, size and number of nodes."""
    names = Names.of(report.gathered)
    columns = [Column("test"), Column("nodes", "right"), Column("size", "right"), Column("measured", "right")]
    columns += [Column(name, "right") for name in ("best", "median", "worst", "specified")]
    return Table(
        title="Figures of the tests (best: of more than ten, what a tenth of them reaches)",
        columns=(*columns, Column("unit"), Column("the worst")),
        rows=tuple(_comparison(one, names) for one in report.comparisons),
    )


def _comparison(one: Comparison, names: Names) -> tuple[str, ...]:
    size = memory_size(one.size_bytes) if one.size_bytes else ""
    figures = (f"{value:.4g}" for value in (one.best, one.median, one.worst))
    specified = f"{one.specified:.4g}" if one.specified else ""
    test = f"{one.test} {one.dtype}".strip()
    worst = "" if one.measured == 1 else names.some(one.worst_nodes)
    return test, str(one.members), size, f"{one.measured:,}", *figures, specified, one.unit, worst


def facts_table(gathered: Gathered) -> Table:
    """What the looks have seen: the same on all nodes, or what differs."""
    seen: dict[tuple[str, str], list[Value]] = {}
    for node in gathered.nodes:
        for probe in node.probes:
            for name, value in probe.facts.items():
                seen.setdefault((probe.name, name), []).append(value)
    return Table(
        title="Facts",
        columns=(Column("look"), Column("fact"), Column("value (how often, where it differs)")),
        rows=tuple((look, fact.replace("_", " "), _values(fact, some)) for (look, fact), some in sorted(seen.items())),
    )


def _values(fact: str, values: list[Value]) -> str:
    counts = Counter(_shown(fact, value) for value in values)
    if len(counts) == 1:
        return next(iter(counts))
    if len(counts) > _MOST_VALUES:
        return f"{len(counts):,} different values"
    return "; ".join(f"{text} ({count:,})" for text, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def _shown(fact: str, value: Value) -> str:
    if fact.endswith("_bytes") and isinstance(value, int) and not isinstance(value, bool):
        return memory_size(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def absent_table(gathered: Gathered) -> Table:
    """Looks for which there was nothing to look at, which is no fault."""
    counts = Counter(
        (probe.name, probe.error) for node in gathered.nodes for probe in node.probes if probe.status == "unavailable"
    )
    return Table(
        title="Not there to be looked at",
        columns=(Column("look"), Column("why"), Column("nodes", "right")),
        rows=tuple((name, why, f"{count:,}") for (name, why), count in sorted(counts.items())),
    )
