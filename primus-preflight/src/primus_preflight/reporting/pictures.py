"""Charts of a report: bandwidth by size, transfers of pairs, devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from primus_core.quantities import memory_size
from primus_core.render.charts import Axis, Chart, Series
from primus_core.render.heat import Heat, heat_figure
from primus_core.render.pages import Drawing
from primus_core.render.plots import plotted
from primus_preflight.judging import Report
from primus_preflight.judging.names import Names
from primus_preflight.judging.peers import Figure, Peers, figures_of
from primus_preflight.judging.performance import PAIRS
from primus_preflight.judging.report import Comparison
from primus_preflight.model import Measurement

_MOST_NODES = 40
"""Rows of a heat map; of more nodes, the slowest are shown."""
_LONGEST_NAME = 22
_KEPT = 12
"""So much of what all names begin with stays."""


def drawings(report: Report) -> Iterator[Drawing]:
    """Those for which there are figures."""
    names = Names.of(report.gathered)
    measured = report.gathered.all_measurements
    yield from _by_size(report.comparisons)
    yield from _pairs([one for one in measured if one.test in PAIRS], names)
    yield from _devices([one for one in measured if len(one.nodes) == 1 and one.unit != "s"], names)


def _by_size(comparisons: Sequence[Comparison]) -> Iterator[Drawing]:
    lines: dict[tuple[str, int], list[Comparison]] = {}
    for one in comparisons:
        if one.unit == "GB/s" and one.size_bytes:
            lines.setdefault((one.test, one.members), []).append(one)
    series = tuple(
        Series(name=_series_name(*key), x=[one.size_bytes for one in some], y=[one.median for one in some])
        for key, some in sorted(lines.items())
        if len(some) > 1
    )
    if series:
        title = "Bandwidth by size (median of all groups of as many nodes)"
        axes = Axis("buffer of a rank"), Axis("bandwidth", "GB/s")
        chart = Chart(name="bandwidth", title=title, x=axes[0], y=axes[1], series=series)
        yield Drawing(
            name=chart.name, title=title, figure=plotted(chart, doubling=True, tick=lambda x: memory_size(round(x)))
        )


def _series_name(test: str, members: int) -> str:
    return f"{test}, {members} nodes" if members > 1 else test


def _pairs(measurements: Sequence[Measurement], names: Names) -> Iterator[Drawing]:
    """Of the largest size; a pair that failed has 0."""
    if not measurements:
        return
    size = max(one.size_bytes for one in measurements)
    here = [one for one in measurements if one.size_bytes == size]
    figures = figures_of(here)
    values = {one.nodes: 0.0 for one in here if one.status != "ok"}
    values |= {one.measurement.nodes: one.value for one in figures}
    own: dict[int, list[float]] = {}
    for pair, value in values.items():
        for node in pair:
            own.setdefault(node, []).append(value)
    shown = _slowest(own)
    labels = _labels([names.host(node) for node in shown])
    rows = tuple(tuple(values.get((sender, receiver)) for receiver in shown) for sender in shown)
    title = f"Transfers of {memory_size(size)} between nodes{_which(len(shown), len(own))}"
    yield _heat("pairs", title, figures, ("sender", labels), ("receiver", labels), rows)


def _devices(measurements: Sequence[Measurement], names: Names) -> Iterator[Drawing]:
    """One for each test of single devices and nodes, of its largest size."""
    tests: dict[str, list[Measurement]] = {}
    for one in measurements:
        tests.setdefault(one.test, []).append(one)
    for test, some in sorted(tests.items()):
        size = max((one.size_bytes, one.dtype) for one in some)
        here = [one for one in some if (one.size_bytes, one.dtype) == size]
        figures = figures_of(here)
        if not figures:
            continue
        values = {_device(one): 0.0 for one in here if one.status != "ok"}
        values |= {_device(one.measurement): one.value for one in figures}
        own: dict[int, list[float]] = {}
        for (node, _), value in values.items():
            own.setdefault(node, []).append(value)
        shown = _slowest(own)
        devices = sorted({device for _, device in values})
        labels = _labels([names.host(node) for node in shown])
        rows = tuple(tuple(values.get((node, device)) for device in devices) for node in shown)
        title = f"{test} by device{f', {size[1]}' if size[1] else ''}{_which(len(shown), len(own))}"
        yield _heat(test, title, figures, ("node", labels), ("device", tuple(map(str, devices))), rows)


def _device(one: Measurement) -> tuple[int, int]:
    return one.nodes[0], one.device or 0


def _heat(
    name: str,
    title: str,
    figures: Sequence[Figure],
    rows: tuple[str, tuple[str, ...]],
    columns: tuple[str, tuple[str, ...]],
    values: tuple[tuple[float | None, ...], ...],
) -> Drawing:
    heat = Heat(
        name=name,
        title=title,
        unit=figures[0].measurement.unit if figures else "GB/s",
        best=Peers.of(figures).best if figures else 0.0,
        row_name=rows[0],
        rows=rows[1],
        column_name=columns[0],
        columns=columns[1],
        values=values,
    )
    return Drawing(name=name, title=title, figure=heat_figure(heat))


def _slowest(own: Mapping[int, Sequence[float]]) -> list[int]:
    """All nodes, or those with the lowest figures where there are too many."""
    order = sorted(own, key=lambda node: (min(own[node]), node))
    return sorted(order[:_MOST_NODES])


def _which(shown: int, total: int) -> str:
    return f" (the {shown} slowest of {total:,})" if shown < total else ""


def _labels(hosts: Sequence[str]) -> tuple[str, ...]:
    """Names without the domain that all share; of those that are too long still, what tells them apart."""
    domains = {host.partition(".")[2] for host in hosts}
    names = [host.partition(".")[0] for host in hosts] if len(domains) == 1 else list(hosts)
    first, last = min(names, default=""), max(names, default="")
    start = next((place for place, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1), 0)
    return tuple(name if len(name) <= _LONGEST_NAME else _short(name, max(0, start - _KEPT)) for name in names)


def _short(name: str, first: int) -> str:
    """From a character on, as much as has room."""
    told = f"..{name[first:]}" if first else name
    return told if len(told) <= _LONGEST_NAME else f"{told[: _LONGEST_NAME - 2]}.."
