"""Runs of tasks that need no training library, under the launcher `direct` and in this process."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

from primus_core import hooks, report
from primus_core.codec import to_json
from primus_core.discovery import scan
from primus_core.experiment import Value
from primus_core.files import write_atomic
from primus_core.linux import processes
from primus_core.outcome import RunReport
from primus_core.plan import Job, RunPlan, Settings, Target, Task
from primus_core.rundir import RunDir
from primus_core.submit import Console, submit

HERE = Path(__file__).parent
"""Where the modules of the tasks are."""


@frozen(kw_only=True)
class Run:
    """A run that is over."""

    report: RunReport
    printed: str
    """What `primus run` prints below its headline."""
    folder: Path
    seconds: float
    left: tuple[int, ...]
    """Processes that have the run's folder in their command line."""


def plan_of(
    folder: Path,
    entry: str,
    *,
    ranks: int = 1,
    nodes: int = 1,
    launcher: str = "direct",
    arguments: Mapping[str, Value] | None = None,
    options: Mapping[str, Value] | None = None,
    env: Mapping[str, str] | None = None,
    settings: Mapping[str, Value] | None = None,
    secrets: tuple[str, ...] = (),
) -> RunPlan:
    """The plan of a task of this folder.

    Args:
        ranks: on each node.
    """
    rundir = RunDir(folder / "exp/runs/r")
    task = Task(kind="train", entry=entry, arguments=arguments or {}, ranks_per_node=ranks)
    job = Job(
        run_id="r",
        name="exp",
        task=task,
        python=sys.executable,
        argv=("-m", "primus_core.rank", str(rundir.plan)),
        env={"PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1", **(env or {})},
        nodes=nodes,
        workdir=str(folder),
        log_dir=str(rundir.submission),
        options=options or {},
    )
    return RunPlan(
        run_id="r",
        run_dir=str(rundir.path),
        target=Target(accelerator="cpu", library_version="", ranks_per_node=ranks, nodes=nodes),
        task=task,
        module="trainer",
        job=job,
        launcher=launcher,
        settings=Settings(values=settings or {}),
        secrets=secrets,
    )


def run(plan: RunPlan) -> Run:
    """Carry a plan out."""
    rundir = RunDir(Path(plan.run_dir))
    write_atomic(rundir.plan, to_json(plan))
    shown, begun = io.StringIO(), time.monotonic()
    submission = hooks.load_host(scan(), backend=None, launcher=plan.launcher, preflight=False).launch(plan.job)
    ended = submit(submission, plan, env={"PATH": os.environ["PATH"]}, console=Console(shown, live=False))
    return Run(
        report=ended,
        printed=f"{shown.getvalue()}{report.screen(ended, plan)}",
        folder=rundir.path,
        seconds=time.monotonic() - begun,
        left=tuple(_naming(str(rundir.path))),
    )


def _naming(text: str) -> Iterator[int]:
    for process in processes():
        try:
            if text in Path(f"/proc/{process.pid}/cmdline").read_text():
                yield process.pid
        except OSError:  # it has ended
            continue
