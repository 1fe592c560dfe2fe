"""`primus report`: what became of a run, while it goes on, when it has ended, and when nobody wrote it down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from primus_core import report
from primus_core.cli.main import main
from primus_core.cli.report import main as report_main
from primus_core.codec import to_json
from primus_core.errors import ConfigError
from primus_core.files import write_atomic
from primus_core.lock import ExperimentLock
from primus_core.outcome import Failure, Raised, RankReport
from primus_core.plan import Job, RunPlan, Target, Task
from primus_core.rundir import RunDir


@pytest.fixture
def rundir(tmp_path: Path) -> RunDir:
    """A run of two ranks that was planned."""
    task = Task(kind="train", entry="x:y")
    rundir = RunDir.of(tmp_path / "exp", "r1")
    plan = RunPlan(
        run_id="r1",
        run_dir="/elsewhere/exp/runs/r1",
        target=Target(accelerator="cpu", library_version="1.2", ranks_per_node=2),
        task=task,
        module="pre",
        framework="line",
        job=Job(run_id="r1", name="exp", task=task, python="python", argv=()),
        launcher="direct",
    )
    write_atomic(rundir.plan, to_json(plan))
    rundir.point_latest()
    return rundir


def ranks(rundir: RunDir, *numbers: int) -> None:
    """Reports of ranks, of which rank 1 failed."""
    failure = Failure(
        type="RuntimeError",
        text="no batch",
        traceback="Traceback ...\nRuntimeError: no batch",
        at="/site/loader.py:12 in load",
        chain=(Raised(type="KeyError", text="'tokens'", at="/site/rows.py:3 in row"),),
    )
    for number in numbers:
        failed = number == 1
        one = RankReport(
            run_id="r1",
            rank=number,
            host=f"node-{number}",
            phase="train",
            iteration=7,
            exit_code=3 if failed else 143,
            signalled_first=not failed,
            failure=failure if failed else None,
            started=1769851800.0,
            ended=1769851860.0,
            peak_memory_bytes=1 << 30,
            memory_limit_bytes=4 << 30,
            versions={"python": "3.11.9", "torch": "2.9.0"},
            last_lines=("one", "two") if failed else (),
        )
        write_atomic(rundir.ranks / f"rank-{number}.json", to_json(one))


def shown(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert report_main(list(map(str, words)), {}) == 0
    return capsys.readouterr().out


def test_a_run_that_failed(rundir: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    """The screen of its end, found by the experiment's folder, also when that was moved since; exit code 0."""
    ranks(rundir, 0, 1)
    report.write(rundir, report.merge(rundir, 2))
    assert shown(capsys, rundir.experiment).splitlines() == [
        "train       exp with line 1.2 on cpu, 2 ranks (direct)",
        f"run         {rundir.path}",
        "error: rank 1 failed: RuntimeError: no batch",
        "  in:  train, iteration 7, on node-1, 1 min 00 s after its start",
        "  why: came from KeyError: 'tokens'",
        "  at:  /site/loader.py:12 in load",
        "  its last lines:",
        "    one",
        "    two",
        "  and: 1 other rank ended in consequence",
        f"  log: {rundir.experiment}/logs/pre/rank-1/debug.log",
    ]


def test_one_rank(rundir: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    """All that a rank left: how it ended, memory, versions, the chain of exceptions, traceback and last lines."""
    ranks(rundir, 0, 1)
    assert shown(capsys, rundir.path, "--rank", "1").splitlines() == [
        "rank 1      on node-1, exit code 3",
        "where       train, iteration 7",
        "time        2026-01-31 09:30:00 UTC to 2026-01-31 09:31:00 UTC (1 min 00 s)",
        "memory      up to 1.0 GiB of 4.0 GiB that its group may use",
        "versions    python 3.11.9, torch 2.9.0",
        "failure     RuntimeError: no batch",
        "            /site/loader.py:12 in load",
        "came from   KeyError: 'tokens'",
        "            /site/rows.py:3 in row",
        "",
        "traceback:",
        "  Traceback ...",
        "  RuntimeError: no batch",
        "",
        "last lines:",
        "  one",
        "  two",
    ]
    with pytest.raises(ConfigError, match="rank 5 left no report") as refused:
        report_main([str(rundir.path), "--rank", "5"], {})
    assert refused.value.why == "reports are there of rank 0, 1"


def test_json_is_for_programs(rundir: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    """Run id, folder, state and the whole report, ranks included."""
    ranks(rundir, 0, 1)
    told = json.loads(shown(capsys, rundir.path, "--format", "json"))
    assert (told["run_id"], told["run_dir"], told["state"]) == ("r1", str(rundir.path), "ended")
    assert (told["report"]["first_failure"], told["report"]["exit_code"]) == (1, 3)
    assert told["report"]["ranks"][1]["versions"]["torch"] == "2.9.0"
    assert json.loads(shown(capsys, rundir.path, "--rank", "0", "--format", "json"))["host"] == "node-0"


def test_a_run_that_goes_on(rundir: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    """While its `primus run` lives, that process is named, whatever ranks have left; another run's is not."""
    ranks(rundir, 1)
    with ExperimentLock(rundir):
        assert "running     since 20" in shown(capsys, rundir.path)
        assert json.loads(shown(capsys, rundir.path, "--format", "json"))["state"] == "running"
    with ExperimentLock(RunDir.of(rundir.experiment, "r2")):
        assert "running" not in shown(capsys, rundir.path)


def test_a_run_that_nobody_has_started(rundir: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    """A plan alone is a run to come, as `primus status` says."""
    for command in ("report", "status"):
        assert main([command, str(rundir.path)]) == 0
        assert "status      planned, and nothing has started it yet" in capsys.readouterr().out


def test_a_run_that_nobody_watches_any_more(rundir: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    """Where `primus run` is gone without a report, what the ranks left is told, and that it is all there is."""
    write_atomic(rundir.submission / "host-0.log", "")
    assert "lost        nothing runs it any more, and no rank left a report" in shown(capsys, rundir.path)
    ranks(rundir, 1)
    text = shown(capsys, rundir.path)
    assert "nothing runs it any more, and it has no report.json; this is what its ranks left:" in text
    assert "error: rank 1 failed" in text
    assert not rundir.report.exists()


def test_what_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without a run is a wrong argument, told with what to give."""
    assert main(["report", str(tmp_path / "nothing")]) == 2
    assert "give a folder" in capsys.readouterr().err
