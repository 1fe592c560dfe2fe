"""What makes the rows of two back ends comparable, beside the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from primus_core.log.metrics import NAMES

_CORE = {"time", "run_id", "rank"}
"""Columns that core fills in, whatever a back end gives."""


def check_row(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Every column of both, with the same meaning and unit; speeds differ, the work that they are of does not."""
    for row in (ours, theirs):
        assert set(row) - _CORE - {"kind"} == set(NAMES) - _CORE
        assert 0 < row["step_seconds"] < 600
        assert row["mfu"] is None  # no peak is known of a CPU
    for name in ("iteration", "train_iters", "tokens"):
        assert ours[name] == theirs[name]
    assert ours["lr"] == pytest.approx(theirs["lr"], rel=1e-12)
    steps = [row["tokens_per_second"] * row["step_seconds"] for row in (ours, theirs)]
    assert steps[0] == pytest.approx(steps[1], rel=1e-9)
    # Bytes: both ranks have imported torch and one library.
    assert 0.25 < ours["memory_bytes"] / theirs["memory_bytes"] < 4
