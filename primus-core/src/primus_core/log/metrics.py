"""The columns of ``metrics.jsonl``: the same names and units for every back end.

Each line is one JSON map with all columns, in this order. A figure that a rank does not have is null; a loss or norm
that is not finite is one of the texts ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, because JSON has no such numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Metric(NamedTuple):
    """One column."""

    name: str
    unit: str
    meaning: str


METRICS = (
    Metric("time", "seconds since the epoch", "when the iteration ended"),
    Metric("run_id", "", "the run that wrote the line: files are appended to when a run is resumed"),
    Metric("rank", "", "global rank"),
    Metric("iteration", "optimizer steps", "counted from 1, over restarts"),
    Metric("train_iters", "optimizer steps", "the iteration that training ends with"),
    Metric("loss", "nats per token", "mean over the global batch; null on ranks that do not compute it"),
    Metric("lr", "1", "learning rate of the step"),
    Metric("grad_norm", "1", "global L2 norm of the gradient before clipping"),
    Metric("tokens_per_second", "tokens/s", "of all ranks together"),
    Metric(
        "tflops",
        "TFLOP/s per rank",
        "model FLOPs by Megatron-LM's formula, whatever the back end: products of matrices, of attention's scores the "
        "causal half, without recomputation",
    ),
    Metric("mfu", "fraction", "tflops over the accelerator's peak; null where no peak is known"),
    Metric("step_seconds", "s", "wall time of the step"),
    Metric("memory_bytes", "bytes", "peak memory of the device so far; on cpu the peak resident set"),
    Metric("tokens", "tokens", "consumed so far by all ranks, over restarts"),
)
NAMES = tuple(metric.name for metric in METRICS)
_CORE = ("time", "run_id", "rank")


def complete_row(given: Mapping[str, object], *, time: float, run_id: str, rank: int) -> dict[str, object]:
    """A line with all columns: core's own and what the back end gives, null for the rest.

    Raises:
        ValueError: the back end gives a column that does not exist.
    """
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        raise ValueError(f"no such metric: {', '.join(unknown)}; known: {', '.join(NAMES)}")
    core = dict(zip(_CORE, (time, run_id, rank), strict=True))
    return {name: core[name] if name in core else given.get(name) for name in NAMES}
