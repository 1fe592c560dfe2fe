"""Runs that carry the code of Primus to where it is not installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from primus_core import bundle
from primus_core.codec import from_json, to_json
from primus_core.discovery import distributions, scan
from primus_core.files import write_atomic
from primus_core.outcome import RankReport
from primus_core.plan import Job, RunPlan, Target, Task
from primus_core.rundir import RunDir

_TASK = Task(kind="train", entry="primus_backend_megatron.rank.train:run")
PLAN = RunPlan(
    run_id="r",
    run_dir="/r",
    target=Target(accelerator="cpu", library_version="1", ranks_per_node=1),
    task=_TASK,
    job=Job(run_id="r", name="n", task=_TASK, python=sys.executable, argv=()),
    framework="megatron",
    launcher="direct",
)
"""What a run with Megatron uses."""

_WITNESS = """
import sys, importlib

def run(plan, rank):
    files = {name: importlib.import_module(name).__file__ for name in plan.task.arguments["modules"]}
    return {"python": sys.version_info.minor, "files": files, "pure": not sys.modules["yaml"].__with_libyaml__}
"""


@frozen
class Witness:
    """One rank whose task tells which Python it runs on and where modules come from; nothing is started yet."""

    rundir: RunDir

    @property
    def plan(self) -> Path:
        return self.rundir.plan

    @property
    def start(self) -> Path:
        return self.rundir.submission / bundle.FOLDER / bundle.START

    @property
    def result(self) -> Any:
        """What the task returned, when the rank has ended."""
        return from_json(RankReport, (self.rundir.ranks / "rank-0.json").read_text()).result


def witness(folder: Path, *modules: str) -> Witness:
    """Write the plan of such a rank, and the code that it needs. ``folder/task.py`` is its task."""
    rundir = RunDir(folder / "exp/runs/r")
    (folder / "task.py").write_text(_WITNESS)
    task = Task(kind="train", entry="task:run", arguments={"modules": ["yaml", *modules]})
    job = evolve(PLAN.job, task=task, run_dir=str(rundir.path))
    plan = evolve(PLAN, task=task, job=job, framework=None, run_dir=str(rundir.path), launcher="single")
    plan = evolve(plan, distributions=distributions(scan()))
    bundle.write(rundir.submission / bundle.FOLDER, plan)
    write_atomic(rundir.plan, to_json(plan))
    return Witness(rundir)
