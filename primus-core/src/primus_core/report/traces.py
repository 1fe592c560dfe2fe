"""The last that was heard of a rank which left no report: the last line of its log."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from primus_core.plan import RunPlan
from primus_core.rundir import RunDir

_TAIL_BYTES = 1 << 14


@frozen(kw_only=True)
class Trace:
    """Where and when a rank said something last."""

    host: str
    time: str
    """UTC, as it stands in the log."""


def last_trace(plan: RunPlan, rank: int) -> Trace | None:
    """From the rank's ``debug.log``; None where that has nothing of this run."""
    logs = RunDir(Path(plan.run_dir)).logs(plan.module or plan.task.kind)
    for line in reversed(_tail(logs / f"rank-{rank}" / "debug.log")):
        columns = line.split(" ", 3)
        if len(columns) == 4 and columns[1] == plan.run_id:
            return Trace(host=columns[2], time=columns[0])
    return None


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
