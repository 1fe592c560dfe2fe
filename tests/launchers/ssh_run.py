"""Starts a task that needs no library over ssh: ``python ssh_run.py FOLDER HOSTS TASK [option=value ...]``.

What a command would be, with a plan that is made here; it runs on the host of the testbed that submits.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from primus_core import hooks, report
from primus_core.codec import to_json
from primus_core.contract.specs import RankContext
from primus_core.discovery import scan
from primus_core.experiment import Value
from primus_core.files import write_atomic
from primus_core.plan import Job, RunPlan, Settings, Target, Task
from primus_core.rundir import RunDir
from primus_core.submit import Console, submit


def wait(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Say that the rank is there, and stay."""
    rank.notice("waiting", "here")
    Path(plan.run_dir, f"here-{rank.rank}").touch()
    time.sleep(600)
    return {}


def fail(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Rank 1 fails; the others wait."""
    Path(plan.run_dir, f"here-{rank.rank}").touch()
    if rank.rank == 1:
        raise RuntimeError("rank 1 has had enough")
    time.sleep(600)
    return {}


def talk(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Write what is no event, and end."""
    os.write(2, f"rank {rank.rank} of {rank.world_size} in {os.getcwd()}, {rank.env['SHOWN_TOKEN']}\n".encode())
    return {}


def plan_of(folder: Path, hosts: list[str], task: str, options: Mapping[str, Value]) -> RunPlan:
    rundir = RunDir(folder / "exp/runs/r")
    job = Job(
        run_id="r",
        name="exp",
        task=Task(kind="script", entry=f"ssh_run:{task}", ranks_per_node=1),
        python=sys.executable,
        argv=("-m", "primus_core.rank", str(rundir.plan)),
        env={"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"},
        nodes=len(hosts),
        workdir=str(folder),
        log_dir=str(rundir.submission),
        options={"hosts": list(hosts), **options},
    )
    return RunPlan(
        run_id="r",
        run_dir=str(rundir.path),
        target=Target(accelerator="cpu", library_version="0", ranks_per_node=1, nodes=len(hosts)),
        task=job.task,
        settings=Settings(values={}),
        job=job,
        launcher="ssh",
        secrets=("SHOWN_TOKEN",),
    )


def main() -> int:
    folder, hosts, task, *words = sys.argv[1:]
    plan = plan_of(Path(folder), hosts.split(","), task, dict(word.split("=", 1) for word in words))
    write_atomic(Path(plan.run_dir, "plan.json"), to_json(plan))
    launcher = hooks.load_host(scan(), backend=None, launcher="ssh", preflight=False)
    ended = submit(launcher.launch(plan.job), plan, env=os.environ, console=Console(sys.stdout, live=False))
    print(report.screen(ended, plan), flush=True)
    return ended.exit_code


if __name__ == "__main__":
    sys.exit(main())
