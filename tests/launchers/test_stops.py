"""Stops and failures of several ranks under torchrun: who hears of it, and how soon all have ended."""

from __future__ import annotations

import io
import os
import sys
import time
from pathlib import Path

import pytest
from attrs import frozen

from primus_core import hooks
from primus_core.codec import to_json
from primus_core.discovery import scan
from primus_core.files import write_atomic
from primus_core.linux import processes
from primus_core.outcome import RunReport
from primus_core.plan import Job, RunPlan, Target, Task
from primus_core.rundir import RunDir
from primus_core.submit import Console, submit

pytestmark = pytest.mark.slow


@frozen(kw_only=True)
class Run:
    """A run that is over."""

    report: RunReport
    printed: str
    seconds: float
    folder: Path


def train(folder: Path, entry: str, ranks: int) -> Run:
    """Run a task under the launcher `direct`, in this process."""
    rundir = RunDir(folder / "exp/runs/r")
    task = Task(kind="train", entry=f"stopped_tasks:{entry}", ranks_per_node=ranks)
    job = Job(
        run_id="r",
        name="exp",
        task=task,
        python=sys.executable,
        argv=("-m", "primus_core.rank", str(rundir.plan)),
        env={"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"},
        log_dir=str(rundir.submission),
    )
    plan = RunPlan(
        run_id="r",
        run_dir=str(rundir.path),
        target=Target(accelerator="cpu", library_version="", ranks_per_node=ranks),
        task=task,
        module="trainer",
        job=job,
        launcher="direct",
    )
    write_atomic(rundir.plan, to_json(plan))
    shown, begun = io.StringIO(), time.monotonic()
    submission = hooks.load_host(scan(), backend=None, launcher="direct", preflight=False).launch(job)
    ended = submit(submission, plan, env={"PATH": os.environ["PATH"]}, console=Console(shown, live=False))
    assert not left(rundir.path)
    return Run(report=ended, printed=shown.getvalue(), seconds=time.monotonic() - begun, folder=rundir.path)


def left(folder: Path) -> list[int]:
    """Processes that have the run's folder in their command line."""
    found = []
    for process in processes():
        try:
            if str(folder) in Path(f"/proc/{process.pid}/cmdline").read_text():
                found.append(process.pid)
        except OSError:  # it has ended
            continue
    return found


def test_a_signal_to_one_rank_stops_all_of_them_after_the_same_iteration(tmp_path: Path) -> None:
    """As when one node of several is taken away: every rank ends with 0, and so does torchrun; the marker is left."""
    run = train(tmp_path, "one_is_told", 3)
    assert run.report.exit_code == 0, run.printed
    assert {rank.iteration for rank in run.report.ranks} == {5}
    assert {rank.stopped for rank in run.report.ranks} == {run.report.stopped} == {"SIGUSR1"}
    assert (run.folder / "requeue.json").exists()


def test_a_rank_that_hears_nothing_ends_within_15_seconds_of_the_first_failure(tmp_path: Path) -> None:
    """It gets its ten seconds and is killed; the rank that failed first is the one that is named."""
    run = train(tmp_path, "one_fails_and_one_is_stuck", 2)
    stuck, failed = run.report.ranks
    assert (run.report.exit_code, run.report.first_failure, run.report.stopped) == (3, 1, None)
    assert (stuck.signal, stuck.signalled_first) == ("SIGKILL", True)
    assert 8 < stuck.ended - failed.ended < 13
    assert not (run.folder / "requeue.json").exists()
