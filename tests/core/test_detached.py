"""Runs that a scheduler starts later; a shell script stands for the scheduler, and a file for its queue."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from primus_core import report
from primus_core.cli.main import main
from primus_core.codec import to_json
from primus_core.errors import DependencyError
from primus_core.files import write_atomic
from primus_core.outcome import RankReport, RunReport
from primus_core.plan import Job, Process, RunPlan, Submission, Target, Task
from primus_core.rundir import RunDir
from primus_core.submit import hand_over, restarts
from primus_core.submit.handle import Handle, ask, read_handle

SCHEDULER = """\
#!/bin/bash
queue=$(dirname "$0")/queue
case $1 in
  submit) echo "warned" >&2; echo "$2" > "$queue"; echo "number 12 given";;
  refuse) echo "no such partition" >&2; exit 5;;
  status) [ "$2" = 12 ] && cat "$queue";;
  cancel) echo '{"state": "cancelled", "text": "gone"}' > "$queue";;
esac
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPlan:
    """Of one rank, written where `primus` looks for runs by their ids."""
    task, rundir = Task(kind="train", entry="x:y"), RunDir.of(tmp_path / "output/g/u/exp", "r1")
    plan = RunPlan(
        run_id="r1",
        run_dir=str(rundir.path),
        target=Target(accelerator="cpu", library_version="1", ranks_per_node=1),
        task=task,
        module="pre",
        job=Job(run_id="r1", name="exp", task=task, python="python", argv=()),
        launcher="queue",
    )
    write_atomic(rundir.plan, to_json(plan))
    monkeypatch.chdir(tmp_path)
    return plan


def submission(tmp_path: Path, told: str, verb: str = "submit") -> Submission:
    """What hands the run over to the scheduler, whose answer about it is always the same."""
    program = tmp_path / "scheduler"
    program.write_text(SCHEDULER)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return Submission(
        processes=(Process(argv=(str(program), verb, told)),),
        files={"script": "text"},
        detached=True,
        handle_pattern=r"number (\d+)",
        status_argv=(str(program), "status", "{handle}"),
        cancel_argv=(str(program), "cancel", "{handle}"),
    )


def submit(tmp_path: Path, plan: RunPlan, told: str) -> Handle:
    handles: list[Handle] = []
    warnings: list[str] = []
    made = submission(tmp_path, told)
    assert hand_over(made, plan, env=dict(os.environ), on_handle=handles.append, warn=warnings.append) == 0
    assert warnings == ["warned"]
    return handles[0]


def state(word: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["status", word, "--format", "json"]) == 0
    return str(json.loads(capsys.readouterr().out)["state"])


def test_a_run_is_handed_over(tmp_path: Path, plan: RunPlan) -> None:
    """The scheduler's name for it and its commands are kept beside the files that it was submitted with."""
    handle = submit(tmp_path, plan, "{}")
    rundir = RunDir(Path(plan.run_dir))
    assert handle.handle == "12"
    assert handle.status_argv == (str(tmp_path / "scheduler"), "status", "12")
    assert read_handle(rundir) == handle
    assert (rundir.submission / "script").read_text() == "text"


def test_a_scheduler_that_refuses(tmp_path: Path, plan: RunPlan) -> None:
    """Its words are the reason, and nothing says that the run was submitted."""
    refused = submission(tmp_path, "", "refuse")
    with pytest.raises(DependencyError, match="scheduler did not take the run") as caught:
        hand_over(refused, plan, env=dict(os.environ), on_handle=lambda handle: None, warn=lambda text: None)
    assert caught.value.why == "no such partition"
    assert read_handle(RunDir(Path(plan.run_dir))) is None


@pytest.mark.parametrize(
    ("told", "state", "text"),
    [
        ('{"state": "pending", "text": "in line", "restarts": 2}', "pending", "in line"),
        ('{"state": "on fire"}', "unknown", ""),
        ("[1]", "unknown", "[1]"),
        ("no json", "unknown", "no json"),
        ("", "unknown", "the scheduler was asked and said nothing"),
    ],
)
def test_what_a_scheduler_says(tmp_path: Path, plan: RunPlan, told: str, state: str, text: str) -> None:
    """One line of JSON; whatever else it says is shown as it is and believed in nothing."""
    says = ask(submit(tmp_path, plan, told))
    assert (says.state, says.text) == (state, text)


def test_a_scheduler_that_is_not_here(tmp_path: Path, plan: RunPlan) -> None:
    """The state is unknown, and the command named."""
    handle = submit(tmp_path, plan, "{}")
    (tmp_path / "scheduler").unlink()
    says = ask(handle)
    assert (says.state, says.text) == ("unknown", f"cannot start {tmp_path / 'scheduler'}")


@pytest.mark.parametrize("word", ["12", "r1"])
def test_a_run_is_found_by_its_job_and_by_its_id(
    tmp_path: Path, plan: RunPlan, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both name it; another number is no run."""
    submit(tmp_path, plan, '{"state": "running", "text": "on node1"}')
    assert main(["status", word]) == 0
    shown = capsys.readouterr().out
    assert "job         12 of queue: on node1" in shown
    assert "status      running, and its ranks are not started yet" in shown
    assert main(["status", "13"]) == 2
    assert "none is a job with this number" in capsys.readouterr().err


def test_the_life_of_a_run(tmp_path: Path, plan: RunPlan, capsys: pytest.CaptureFixture[str]) -> None:
    """Pending, running, requeued, then what it left counts, also when the scheduler has forgotten it."""
    handle, queue, rundir = submit(tmp_path, plan, ""), tmp_path / "queue", RunDir(Path(plan.run_dir))

    def told(says: str) -> str:
        queue.write_text(json.dumps({"state": says}))
        return state("r1", capsys)

    assert [told(says) for says in ("pending", "running", "unknown", "failed")] == [
        "pending", "running", "lost", "failed"
    ]  # fmt: skip
    ended = RunReport(run_id="r1", exit_code=0, started=1, ended=2, stopped="SIGTERM")
    report.write(rundir, ended)
    assert [told(says) for says in ("pending", "completed", "unknown")] == ["requeued", "stopped", "stopped"]
    assert main(["cancel", handle.handle]) == 0
    assert "job 12, run r1" in capsys.readouterr().out
    assert [told(says) for says in ("cancelled", "unknown")] == ["cancelled", "cancelled"]
    report.write(rundir, RunReport(run_id="r1", exit_code=0, started=1, ended=2))
    assert [told(says) for says in ("completed", "unknown")] == ["completed", "completed"]


def test_a_run_that_has_ended_is_not_cancelled(
    tmp_path: Path, plan: RunPlan, capsys: pytest.CaptureFixture[str]
) -> None:
    """What became of it stays what it was."""
    submit(tmp_path, plan, '{"state": "completed"}')
    assert main(["cancel", "r1"]) == 0
    assert "is not going on" in capsys.readouterr().out
    handle = read_handle(RunDir(Path(plan.run_dir)))
    assert handle
    assert handle.cancelled is None


def test_starts_are_counted_whatever_they_left(plan: RunPlan) -> None:
    """One that was cut short, one that ended, and one that never began: reports go aside, numbers go on."""
    rundir = RunDir(Path(plan.run_dir))
    assert restarts.resume(rundir, plan) == 1
    assert restarts.resume(rundir, plan) == 1  # nothing was started in between
    restarts.mark_begun(rundir, 1)
    write_atomic(rundir.ranks / "rank-0.json", to_json(RankReport(run_id="r1", rank=0, host="h", phase="train")))
    assert restarts.resume(rundir, plan) == 2
    report.write(rundir, RunReport(run_id="r1", exit_code=0, started=1, ended=2, stopped="SIGTERM", attempt=2))
    (rundir.path / restarts.REQUEUE).touch()
    assert restarts.resume(rundir, plan) == 3
    first, second = report.attempts(rundir)
    assert first.launcher_problems[0].what == "start 1 of the run was cut short"
    assert len(first.ranks) == 1
    assert second.stopped == "SIGTERM"
    assert not (rundir.path / restarts.REQUEUE).exists()
    assert not rundir.report.exists()


def test_a_plan_whose_run_is_complete_is_not_started_again(plan: RunPlan, capsys: pytest.CaptureFixture[str]) -> None:
    """The rest of a chain of jobs ends at once, well."""
    report.write(RunDir(Path(plan.run_dir)), RunReport(run_id="r1", exit_code=0, started=1, ended=2))
    assert main(["start", str(RunDir(Path(plan.run_dir)).plan), "--handle", "7"]) == 0
    assert "nothing is left to do" in capsys.readouterr().out


def test_a_run_that_could_not_be_started_tells_why(plan: RunPlan, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody watches a job whose node has no such launcher: `primus status` has its words, and its exit code."""
    start = ["start", str(RunDir(Path(plan.run_dir)).plan), "--handle", "7"]
    code = main(start)
    told = capsys.readouterr().err
    assert code == 2
    assert told.startswith("error: ")
    assert main(["status", "r1", "--format", "json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["state"], status["exit_code"]) == ("failed", 2)
    assert main(["status", "r1"]) == 0
    assert told.strip() in capsys.readouterr().out
    report.write(RunDir(Path(plan.run_dir)), RunReport(run_id="r1", exit_code=0, started=1, ended=2, stopped="SIGTERM"))
    assert main(start) == 2
    assert main(["report", "r1"]) == 0
    assert "stopped     by SIGTERM" in capsys.readouterr().out


def test_a_plan_that_nobody_has_started(plan: RunPlan, capsys: pytest.CaptureFixture[str]) -> None:
    """It is no run that was lost."""
    assert state("r1", capsys) == "planned"
    assert main(["status", "r1"]) == 0
    assert "nothing has started it yet" in capsys.readouterr().out
