"""What a run measured: the rows of ``metrics.jsonl`` that are its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attrs import frozen

from primus_core.compare.runs import Run
from primus_core.errors import ConfigError

_BLOCK = 1 << 16
_TRAIN = "compare runs that trained at least one iteration"


class Row(NamedTuple):
    """One iteration; figures that the rank does not have are None. Units are those of `primus_core.log.metrics`."""

    run_id: str
    iteration: int
    train_iters: float | None
    loss: float | None
    grad_norm: float | None
    tokens_per_second: float | None
    tflops: float | None
    mfu: float | None
    step_seconds: float | None
    memory_bytes: float | None


_FIGURES = Row._fields[2:]


@frozen(kw_only=True)
class Measured:
    """The iterations of a run, of the lowest rank that has the loss."""

    rank: int
    rows: Mapping[int, Row]
    """By iteration, in ascending order."""
    continues: tuple[str, ...]
    """The runs before, whose iterations are among these: the run went on from their checkpoint. The latest first."""
    peak_memory_bytes: float | None
    """Of the rank that needed most."""
    damaged: tuple[int, ...]
    """Numbers of lines that are no rows, and left out. A line that is still being written is not among them."""
    file: Path


def measured(run: Run) -> Measured:
    """Read what a run measured.

    Raises:
        ConfigError: it has no metrics, no rank's metrics have a loss, or they cannot be read.
    """
    try:
        return _measured(run)
    except OSError as error:
        remedy = "make the run's logs readable"
        raise ConfigError("the metrics cannot be read", where=str(run.logs), why=str(error), remedy=remedy) from None


def _measured(run: Run) -> Measured:
    run_id = run.plan.run_id
    last = {rank: row for rank, file in _files(run.logs) if (row := _last_row(file, run_id))}
    if not last:
        raise ConfigError("the run has no metrics", where=str(run.rundir.path), why=_why_none(run), remedy=_TRAIN)
    rank = next((rank for rank, row in last.items() if row.loss is not None), None)
    if rank is None:
        raise _no_loss(run, list(last))
    file = _metrics_file(run.logs, rank)
    damaged: list[int] = []
    continued = run.plan.settings.values.get("auto_continue_train") is True
    rows, continues = _history(list(_rows(file, damaged)), run_id, continued)
    peaks = [row.memory_bytes for row in last.values() if row.memory_bytes is not None]
    return Measured(
        rank=rank,
        rows=dict(sorted(rows.items())),
        continues=continues,
        peak_memory_bytes=max(peaks, default=None),
        damaged=tuple(damaged),
        file=file,
    )


def _why_none(run: Run) -> str:
    """Which of the things that a run leaves behind is missing."""
    files = [file for _, file in _files(run.logs)]
    ended = f"it ended with exit code {run.report.exit_code}" if run.report else "it has no report.json yet"
    if not files:
        return f"there is no rank-N/metrics.jsonl in {run.logs}; {ended}"
    return f"no line of {len(files)} metrics.jsonl in {run.logs} is of run {run.plan.run_id}; {ended}"


def _no_loss(run: Run, ranks: Sequence[int]) -> ConfigError:
    pipeline = run.plan.translation.layout.pipeline if run.plan.translation else 1
    some = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return ConfigError(
        "the metrics have no loss",
        where=str(run.logs),
        why=f"loss is null in the metrics of rank {some}"
        + (f"; of {pipeline} pipeline stages, only the ranks of the last have it" if pipeline > 1 else ""),
        remedy="copy the logs of all ranks" if len(ranks) < run.plan.target.world_size else _TRAIN,
    )


def _metrics_file(logs: Path, rank: int) -> Path:
    return logs / f"rank-{rank}" / "metrics.jsonl"


def _files(logs: Path) -> list[tuple[int, Path]]:
    """The metrics of each rank that has some, in their order."""
    names = (path.parent.name.removeprefix("rank-") for path in logs.glob("rank-*/metrics.jsonl"))
    return [(rank, _metrics_file(logs, rank)) for rank in sorted(int(name) for name in names if name.isdigit())]


def _history(rows: Sequence[Row], run_id: str, continued: bool) -> tuple[dict[int, Row], tuple[str, ...]]:
    """The rows of a run and of those before, from whose checkpoints it went on; of an iteration, the latest row."""
    own = [n for n, row in enumerate(rows) if row.run_id == run_id]
    kept = {rows[n].iteration: rows[n] for n in own}
    runs: list[str] = []
    while continued:
        first = min(kept)
        last = next((n for n in reversed(range(own[0])) if rows[n].iteration == first - 1), None)
        if last is None:
            break
        runs.append(rows[last].run_id)
        own = [n for n in range(last + 1) if rows[n].run_id == runs[-1] and rows[n].iteration < first]
        kept = {**{rows[n].iteration: rows[n] for n in own}, **kept}
    return kept, tuple(runs)


def _rows(file: Path, damaged: list[int]) -> Iterator[Row]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            row = _row(line)
            if row:
                yield row
            elif line.endswith(b"\n"):
                damaged.append(number)


def _last_row(file: Path, run_id: str) -> Row | None:
    """The latest row of a run, without reading the file from its beginning."""
    rows = (row for row in map(_row, _lines_backwards(file)) if row and row.run_id == run_id)
    return next(rows, None)


def _lines_backwards(file: Path) -> Iterator[bytes]:
    with file.open("rb") as content:
        left, rest = content.seek(0, 2), b""
        while left:
            start = max(0, left - _BLOCK)
            content.seek(start)
            first, *lines = (content.read(left - start) + rest).split(b"\n")
            yield from reversed(lines)
            left, rest = start, first
        yield rest


def _row(line: bytes) -> Row | None:
    try:
        values = json.loads(line)
        run_id, iteration = values["run_id"], values["iteration"]
        if isinstance(run_id, str) and type(iteration) is int:
            return Row(run_id, iteration, *_numbers(values))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        pass
    return None


def _numbers(values: Mapping[str, Any]) -> Iterable[float | None]:
    return (_number(values.get(name)) for name in _FIGURES)


def _number(value: object) -> float | None:
    """A figure; one that is not finite is a text in JSON."""
    if value is None or type(value) is float:
        return value
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(str(value))
    return float(value) if type(value) is int else None
