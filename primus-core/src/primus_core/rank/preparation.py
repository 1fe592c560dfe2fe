"""Tasks that rank 0 runs before all ranks start the main one; on a node without its files, the first rank there."""

from __future__ import annotations

import time
from pathlib import Path

from attrs import evolve

from primus_core.apart import is_apart
from primus_core.contract import RankContext
from primus_core.files import write_atomic
from primus_core.log.events import to_json
from primus_core.plan import RunPlan, Task
from primus_core.rank.entries import call
from primus_core.rundir import RunDir

_POLL_SECONDS = 0.05


def prepare(plan: RunPlan, rank: RankContext, run_dir: RunDir) -> None:
    """Run or await each of the plan's preparations.

    A result is a file that is complete or absent. A rank that is started again in the same run finds and keeps it.
    Ranks that wait are ended by their launcher when rank 0 fails.
    """
    for task in plan.prepare:
        path = run_dir.prepare / f"{task.kind}.json"
        if (rank.local_rank if is_apart(rank.env) else rank.rank) == 0:
            _run(plan, task, rank, path)
        else:
            _await(task, rank, path)


def _run(plan: RunPlan, task: Task, rank: RankContext, path: Path) -> None:
    if path.exists():
        return
    rank.phase(task.kind)
    result = call(evolve(plan, task=task), rank)
    write_atomic(path, to_json(result) + "\n")


def _await(task: Task, rank: RankContext, path: Path) -> None:
    if path.exists():
        return
    rank.phase(f"wait for {task.kind} on rank 0")
    while not path.exists():
        time.sleep(_POLL_SECONDS)
