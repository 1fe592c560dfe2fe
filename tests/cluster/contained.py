"""Starts a task in a container: ``python contained.py FOLDER TASK RANKS SECTION``, the `container:` section as JSON.

What a command would be, with a plan that is made here.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from primus_core import bundle, hooks, report
from primus_core.codec import to_json
from primus_core.discovery import scan
from primus_core.experiment import Value
from primus_core.files import write_atomic
from primus_core.plan import Job, Mount, RunPlan, Settings, Target, Task
from primus_core.rundir import RunDir
from primus_core.submit import Console, submit


def plan_of(folder: Path, task: str, ranks: int, section: Mapping[str, Value]) -> RunPlan:
    rundir = RunDir(folder / "exp/runs/r")
    mounts = (Mount(path=str(folder), writable=True), Mount(path=str(Path(__file__).parent)))
    job = Job(
        run_id="r",
        name="exp",
        task=Task(kind="script", entry=f"contained_tasks:{task}", ranks_per_node=ranks),
        python=sys.executable,
        argv=("-m", "primus_core.rank", str(rundir.plan)),
        env={"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"},
        workdir=str(folder),
        log_dir=str(rundir.submission),
        options=section,
        sections={"container": section},
        run_dir=str(rundir.path),
        secrets=("SHOWN_TOKEN",),
        mounts=mounts,
    )
    return RunPlan(
        run_id="r",
        run_dir=str(rundir.path),
        target=Target(accelerator="cpu", library_version="0", ranks_per_node=ranks),
        task=job.task,
        settings=Settings(values={}),
        job=job,
        launcher="container",
        secrets=("SHOWN_TOKEN",),
    )


def main() -> int:
    folder, task, ranks, section = sys.argv[1:]
    plan = plan_of(Path(folder), task, int(ranks), json.loads(section))
    rundir = RunDir(Path(plan.run_dir))
    submission = hooks.load_host(scan(), backend=None, launcher="container", preflight=False).launch(plan.job)
    if submission.carries_code:
        bundle.write(rundir.submission / bundle.FOLDER, plan)
    write_atomic(rundir.plan, to_json(plan))
    ended = submit(submission, plan, env=os.environ, console=Console(sys.stdout, live=False))
    print(report.screen(ended, plan), flush=True)
    return ended.exit_code


if __name__ == "__main__":
    sys.exit(main())
