"""Training steps whose operations are projected and counted: how far the two may be apart."""

from __future__ import annotations

import json
from collections.abc import Iterable

from primus_core.projection.flops import hardware_of
from primus_core.shape import ModelShape
from tests.truth.steps import Row, Step

ALLOWED = 0.005
"""Of what is counted."""


def per_rank(shape: ModelShape, stage: int) -> float:
    """Operations that a rank of a stage runs in a training step; of whole attention, as PyTorch counts it."""
    shared = shape.group("tensor") * shape.group("context")
    return hardware_of(shape, stage, "whole") * shape.schedule.micro_batches / shared


def row_of(case: Step, projected: float, measured: int | None, note: str = "") -> Row:
    """One comparison for `make accuracy`.

    Args:
        note: why there is nothing to compare.
    """
    layout = f"rank {case.rank} of {case.ranks}, {'fused' if case.fused else 'local'} kernels"
    row = {"model": case.name, "layout": layout, "projected": projected, "measured": measured}
    return {**row, "note": note} if note else row


def problem(row: Row) -> str:
    """Empty where the projection is true enough."""
    if row["measured"] is None:
        return f"{row['model']}: {row['note']}"
    error = row["projected"] / row["measured"] - 1
    return "" if abs(error) <= ALLOWED else f"{row['model']}: {error:+.3%}"


def wrong(rows: Iterable[Row]) -> list[str]:
    """A line for each row that is beyond what is allowed, or has nothing to compare."""
    return [line for line in map(problem, rows) if line]


def written(rows: Iterable[Row]) -> int:
    """Write a line for each; 1 where one is beyond what is allowed."""
    off = 0
    for row in rows:
        print(json.dumps(row), flush=True)
        off += bool(row["measured"] and problem(row))
    return int(off > 0)
