"""A comparison as a page: its tables and charts."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

from primus_core.compare.comparison import Agreement, Comparison, Facts, Pair, Span, curve, relative
from primus_core.compare.measurements import Measured
from primus_core.explain.differences import Side
from primus_core.quantities import duration, memory_size
from primus_core.render.charts import Axis, Chart, Series
from primus_core.render.pages import Block, Page, Paragraph
from primus_core.render.tables import Column, Table
from primus_core.yamlfile import written

_NONE = "-"
_BOTH = (Column(""), Column("A"), Column("B"))
_FIGURES = (Column("A", "right"), Column("B", "right"), Column("B against A", "right"))
_UNITS = {"loss": "nats per token", "grad_norm": "", "tokens_per_second": "tokens/s"}
CHARTS = ("loss", "loss-difference", "grad-norm", "throughput")
"""Names of all charts that a comparison may have."""


def comparison_page(comparison: Comparison, measured: tuple[Measured, Measured]) -> Page:
    """Everything about two runs, for people."""
    names = tuple(f"{letter}  {one.experiment} {one.run_id}" for letter, one in _sides(comparison))
    return Page(
        title="Comparison of two runs",
        blocks=(
            _runs(comparison),
            _asked(comparison),
            _agreement("Loss (nats per token)", comparison.loss),
            *([_agreement("Gradient norm", comparison.grad_norm)] if comparison.grad_norm else ()),
            _speed(comparison),
            *map(Paragraph, _notes(comparison)),
            *_charts(measured, names),
        ),
    )


def _sides(comparison: Comparison) -> tuple[tuple[str, Facts], tuple[str, Facts]]:
    return ("A", comparison.a), ("B", comparison.b)


def _asked(comparison: Comparison) -> Block:
    if not comparison.differences:
        return Paragraph("The two experiments mean the same.")
    rows = tuple((one.name, _value(one.before), _value(one.after)) for one in comparison.differences)
    return Table(title="What differs in the experiments", columns=_BOTH, rows=rows)


def _value(side: Side) -> str:
    if side.origin == "not set":
        return side.origin
    asked, used = written(side.asked), written(side.used)
    return asked if asked == used else f"{asked} (used: {used})"


def _runs(comparison: Comparison) -> Table:
    told: dict[str, Callable[[Facts], str]] = {
        "folder": lambda one: one.path,
        "experiment": lambda one: one.experiment,
        "run": lambda one: one.run_id,
        "back end": lambda one: f"{one.framework} {one.library_version}",
        "Primus": _versions,
        "ranks": lambda one: f"{one.ranks} on {_counted(one.nodes, 'node')} ({one.accelerator})",
        "launcher": lambda one: one.launcher,
        "layout": _layout,
        "batch": _batch,
        "iterations": _iterations,
        "end": _end,
        "wall time": lambda one: _NONE if one.wall_seconds is None else duration(one.wall_seconds),
    }
    rows = tuple((name, tell(comparison.a), tell(comparison.b)) for name, tell in told.items())
    return Table(title="Runs", columns=_BOTH, rows=rows)


def _versions(facts: Facts) -> str:
    """One version where all distributions have it."""
    versions = set(facts.distributions.values())
    if len(versions) == 1:
        return versions.pop()
    return ", ".join(f"{name} {version}" for name, version in facts.distributions.items()) or _NONE


def _layout(facts: Facts) -> str:
    layout = facts.layout
    sizes = {
        "data": facts.data_parallel,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "context": layout.context,
        "expert": layout.expert,
    }
    return ", ".join(f"{name} {size}" for name, size in sizes.items() if size > 1 or name == "data")


def _batch(facts: Facts) -> str:
    micro, whole = facts.layout.micro_batch_size, facts.layout.global_batch_size
    return f"{whole if whole is not None else micro * facts.data_parallel}, in micro batches of {micro}"


def _iterations(facts: Facts) -> str:
    planned = f" of {facts.train_iters}" if facts.train_iters is not None else ""
    return f"{_span(facts.iterations)}{planned}"


def _end(facts: Facts) -> str:
    if facts.exit_code is None:
        return "no report: it goes on, or was ended without one"
    if facts.exit_code == 0:
        return "success"
    by = f", by {signal.Signals(facts.exit_code - 128).name}" if facts.exit_code - 128 in set(signal.Signals) else ""
    first = f"; rank {facts.first_failure} failed first" if facts.first_failure is not None and not by else ""
    return f"exit code {facts.exit_code}{by}{first}"


def _agreement(title: str, agreement: Agreement) -> Table:
    pairs = {"first in common": agreement.first, "last in common": agreement.last}
    if agreement.largest:
        pairs["largest difference"] = agreement.largest
    rows = [
        (name, str(pair.iteration), _figure(pair.a), _figure(pair.b), _relative(pair.relative))
        for name, pair in pairs.items()
    ]
    for letter, point in (("A", agreement.last_a), ("B", agreement.last_b)):
        if point.iteration != agreement.last.iteration:
            value = _figure(point.value)
            cells = (value, _NONE) if letter == "A" else (_NONE, value)
            rows.append((f"last of {letter}", str(point.iteration), *cells, _NONE))
    return Table(title=title, columns=(Column(""), Column("iteration", "right"), *_FIGURES), rows=tuple(rows))


def _speed(comparison: Comparison) -> Table:
    speed = comparison.speed
    told: tuple[tuple[str, Pair, Callable[[float], str]], ...] = (
        ("tokens/s, all ranks", speed.tokens_per_second, _rate),
        ("s per step", speed.step_seconds, _short),
        ("TFLOP/s per rank", speed.tflops, _short),
        ("MFU", speed.mfu, lambda value: f"{value:.1%}"),
        ("largest peak memory of a rank", comparison.peak_memory_bytes, lambda value: memory_size(round(value))),
    )
    rows = tuple(
        (name, *(_NONE if value is None else show(value) for value in (pair.a, pair.b)), _percent(pair.relative))
        for name, pair, show in told
    )
    title = f"Speed (median of iterations {_span(speed.over)}) and memory"
    return Table(title=title, columns=(Column(""), *_FIGURES), rows=rows)


def _notes(comparison: Comparison) -> Iterator[str]:
    """What the tables do not say."""
    for name, agreement in (("loss", comparison.loss), ("gradient norm", comparison.grad_norm)):
        if agreement and agreement.not_finite:
            count, first = len(agreement.not_finite), agreement.not_finite[0]
            yield f"The {name} is not finite at {_counted(count, 'common iteration')}, first at {first}."
    for letter, facts in _sides(comparison):
        if facts.continues:
            yield f"{letter} went on from run {', '.join(facts.continues)}, whose iterations are counted with it."
        if facts.damaged_lines:
            lines = ", ".join(map(str, facts.damaged_lines[:5])) + (", ..." if len(facts.damaged_lines) > 5 else "")
            yield f"{letter}: damaged lines of {facts.metrics_file} are left out: {lines}."
    if not comparison.defaults_known:
        yield "A back end is not installed here: a parameter that is set to its default counts as a difference."


def _charts(measured: tuple[Measured, Measured], names: tuple[str, ...]) -> Iterator[Chart]:
    yield from _chart("loss", "Loss", measured, "loss", names)
    a, b = (curve(one, "loss") for one in measured)
    gaps = {n: gap for n, value in a.items() if (gap := relative(value, b.get(n))) is not None}
    if gaps:
        yield Chart(
            name="loss-difference",
            title="Relative difference of the loss",
            x=Axis("iteration"),
            y=Axis("(B - A) / |A|"),
            series=(Series(name="B against A", x=list(gaps), y=list(gaps.values())),),
        )
    yield from _chart("grad-norm", "Gradient norm", measured, "grad_norm", names)
    yield from _chart("throughput", "Throughput of all ranks", measured, "tokens_per_second", names)


def _chart(
    name: str, title: str, measured: tuple[Measured, Measured], figure: str, names: tuple[str, ...]
) -> Iterator[Chart]:
    """The curve of both runs; no chart where neither has one."""
    curves = [curve(one, figure) for one in measured]
    if any(curves):
        series = (Series(name=name, x=list(one), y=list(one.values())) for name, one in zip(names, curves, strict=True))
        label = Axis(title.lower(), _UNITS[figure])
        yield Chart(name=name, title=title, x=Axis("iteration"), y=label, series=tuple(series))


def _span(span: Span) -> str:
    """``1 to 100``; gaps are told by the number of iterations that are there."""
    text = f"{span.first} to {span.last}"
    return text if span.count == span.last - span.first + 1 else f"{text} ({span.count} there)"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _figure(value: float | None) -> str:
    return _NONE if value is None else f"{value:.6g}"


def _rate(value: float) -> str:
    return f"{value:,.0f}"


def _short(value: float) -> str:
    return f"{value:.3g}"


def _relative(value: float | None) -> str:
    return _NONE if value is None else f"{value:+.1e}" if value else "0"


def _percent(value: float | None) -> str:
    return _NONE if value is None else f"{value:+.1%}" if value else "0"
