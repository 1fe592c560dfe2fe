"""What is measured, as rows of named values; which of them a table shows, and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from primus_core.experiment import Value
from primus_core.records import frozen
from primus_core.render.tables import Column, Table

Row = Mapping[str, Value]
Kind = Literal["results", "ranks", "trace"]
"""``ranks``: the figures of each rank of a collective; ``trace``: each of its repetitions."""

CONTEXT = (
    "suite",
    "run_id",
    "date",
    "host",
    "rank",
    "world_size",
    "nodes",
    "device",
    "accelerator",
    "torch",
    "runtime",
    "label",
)
"""Of every row: when, where and with what it was measured. ``world_size`` and ``nodes`` are those of the whole run;
``runtime``: the version of CUDA or ROCm, and of NCCL or RCCL; ``label``: a model or a cluster."""
_TIMES = ("iterations", "median_us", "min_us", "max_us", "spread_percent")
_COMPUTED = ("tflops", "peak_tflops", "peak_source", "peak_percent", "status", "error")
_SENT = ("algbw_gbs", "busbw_gbs", "peak_gbs", "peak_source", "peak_percent", "status", "error")
_GEMM = ("operation", "phase", "m", "n", "k", "trans_a", "trans_b", "dtype", *_TIMES, "gbs", *_COMPUTED)
_ATTENTION = ("kernel", "phase", "batch", "seqlen", "heads", "kv_heads", "head_dim", "causal", "dtype")
_STRIDED = ("size_mb", "group", "stride", "parallel", "dtype", "backend")
_RCCL = ("op", "bytes", "dtype", "backend", "repeat")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "gemm": (*CONTEXT, *_GEMM),
    "gemm-dense": (*CONTEXT, *_GEMM),
    "gemm-deepseek": (*CONTEXT, *_GEMM),
    "attention": (*CONTEXT, *_ATTENTION, *_TIMES, *_COMPUTED),
    "strided-allgather": (*CONTEXT, *_STRIDED, *_TIMES, *_SENT),
    "rccl": (*CONTEXT, *_RCCL, *_TIMES, *_SENT),
    "rccl ranks": (*CONTEXT, *_RCCL, *_TIMES),
    "rccl trace": (*CONTEXT, *_RCCL, "iteration", "us"),
}
"""By suite, in the order of the columns of a file; other tables of a suite by its name and theirs."""
_HIDDEN = tuple(name for name in CONTEXT if name != "rank")
_HIDDEN_TOO = ("peak_source", "trans_a", "trans_b", "min_us", "max_us", "iterations", "gbs", "backend", "error")
_LARGE = 1e5
"""From here on five digits would be told with a power of ten."""
_NAMES = {
    "median_us": "median us",
    "spread_percent": "spread %",
    "tflops": "TFLOP/s",
    "peak_tflops": "peak",
    "peak_gbs": "peak",
    "peak_percent": "% of peak",
    "algbw_gbs": "algorithm GB/s",
    "busbw_gbs": "bus GB/s",
}


@frozen(kw_only=True)
class Peak:
    """What a figure is compared with."""

    value: float
    """In the figure's unit; 0 where there is nothing to compare with."""
    source: str
    """``specified``: by the maker, for the device; ``measured``: by large products of matrices of the same type;
    ``best here``: the best figure of the same operation in this run."""


def columns_of(suite: str, kind: Kind) -> tuple[str, ...]:
    """The columns of a table's file."""
    return COLUMNS[suite if kind == "results" else f"{suite} {kind}"]


def with_peaks(rows: Iterable[Row], figure: str, peaks: Mapping[str, Peak], group: str) -> list[Row]:
    """The rows with what their figures are compared with, and the share of it in percent.

    Args:
        figure: ``tflops`` or ``busbw_gbs``.
        peaks: by the value of the column ``group``; where there is none, the best row of the same value is the peak.
    """
    rows = list(rows)
    best = {row[group]: _best(rows, figure, group, row[group]) for row in rows}
    return [_with_peak(row, figure, peaks.get(str(row[group])) or best[row[group]]) for row in rows]


def _best(rows: Sequence[Row], figure: str, group: str, value: Value) -> Peak:
    figures = [_number(row, figure) for row in rows if row[group] == value]
    return Peak(value=max(figures), source="best here")


def _with_peak(row: Row, figure: str, peak: Peak) -> Row:
    own = _number(row, figure)
    if not own or not peak.value:
        return row
    name = "peak_tflops" if figure == "tflops" else "peak_gbs"
    share = rounded(100 * own / peak.value)
    return {**row, name: rounded(peak.value), "peak_source": peak.source, "peak_percent": share}


def _number(row: Row, name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0


def rounded(figure: float) -> float:
    """Five digits that count: more of a measurement is noise."""
    return float(f"{figure:.5g}")


def table_of(suite: str, kind: Kind, rows: Sequence[Row]) -> Table:
    """What people read of a suite's rows: figures, and of the rest what differs between rows."""
    shown = [name for name in columns_of(suite, kind) if _is_shown(name, rows)]
    columns = tuple(Column(_NAMES.get(name, name), _alignment(name, rows)) for name in shown)
    return Table(title=_title(suite, rows), columns=columns, rows=tuple(_cells(row, shown) for row in rows))


def _is_shown(name: str, rows: Sequence[Row]) -> bool:
    values = [row.get(name) for row in rows]
    if name in (*_HIDDEN, "rank", "status", "phase", "repeat", "group", "error"):
        return len({str(value) for value in values}) > 1
    return name not in _HIDDEN_TOO and any(value is not None for value in values)


def _alignment(name: str, rows: Sequence[Row]) -> Literal["left", "right"]:
    numbers = any(isinstance(row.get(name), (int, float)) and not isinstance(row.get(name), bool) for row in rows)
    return "right" if numbers else "left"


def _title(suite: str, rows: Sequence[Row]) -> str:
    """The suite and what it ran on: ``gemm on AMD Instinct MI300X of node1, 8 ranks, torch 2.9 (ROCm 7.0), date``."""
    first = rows[0]
    runtime = f" ({first['runtime']})" if first.get("runtime") else ""
    label = f" of {first['label']}" if first.get("label") else ""
    world = first["world_size"]
    ranks = f"{world} rank{'s' * (world != 1)}"
    sources = sorted({str(row["peak_source"]) for row in rows if row.get("peak_source")})
    peak = f", peak {' or '.join(sources)}" if sources else ""
    place = f"{first['device']} of {first['host']}, {ranks}, torch {first['torch']}{runtime}"
    return f"{suite}{label} on {place}{peak}, {first['date']}, run {first['run_id']}"


def _cells(row: Row, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(text_of(row.get(name)) for name in names)


def text_of(value: Value) -> str:
    """A value as a cell has it; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.5g}" if abs(value) < _LARGE else f"{value:.0f}"
