"""A run that fails and is started again in place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from primus_core.codec import to_json
from primus_core.plan import Job, Process, RunPlan, Settings, Submission, Target, Task
from primus_core.report import attempts
from primus_core.rundir import RunDir

DRIVER = """
import os, sys
from pathlib import Path
from primus_core.codec import from_json
from primus_core.plan import RunPlan, Submission
from primus_core.submit import submit
read = lambda cls, path: from_json(cls, Path(path).read_text())
sys.exit(submit(read(Submission, sys.argv[1]), read(RunPlan, sys.argv[2]), env=dict(os.environ)).exit_code)
"""

RANK = """
import json, os, sys, time
attempt, rank, fails = os.environ["PRIMUS_ATTEMPT"], 0, json.loads(sys.argv[2])
code = fails.get(attempt, 0)
os.makedirs(sys.argv[1], exist_ok=True)
report = dict(run_id="r", rank=rank, host="h", phase="train", exit_code=code, ended=time.time(), iteration=int(attempt))
with open(f"{sys.argv[1]}/rank-{rank}.json", "w") as file:
    json.dump(report, file)
sys.exit(code)
"""


def plan(tmp_path: Path, restarts: int) -> RunPlan:
    task = Task(kind="train", entry="x:y")
    return RunPlan(
        run_id="r",
        run_dir=str(tmp_path / "e/runs/r"),
        target=Target(accelerator="cpu", library_version="1", ranks_per_node=1),
        task=task,
        module="pre",
        settings=Settings(values={"max_restarts": restarts}),
        job=Job(run_id="r", name="n", task=task, python=sys.executable, argv=()),
        launcher="l",
    )


def drive(tmp_path: Path, made: RunPlan, fails: dict[str, int]) -> subprocess.Popen[str]:
    """`primus run` of one rank, which ends with the given codes, by attempt."""
    argv = (sys.executable, "-c", RANK, str(RunDir(Path(made.run_dir)).ranks), json.dumps(fails))
    files = [tmp_path / "submission.json", tmp_path / "plan.json"]
    files[0].write_text(to_json(Submission(processes=(Process(argv=argv),))))
    files[1].write_text(to_json(made))
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, *map(str, files)],
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("restarts", "fails", "code", "starts"),
    [
        (0, {"1": 7}, 3, 1),
        (2, {"1": 7, "2": 9}, 0, 3),
        (1, {"1": 7, "2": 9}, 3, 2),
        (3, {"1": 2}, 2, 1),
    ],
)
def test_a_failed_run_is_started_again_as_often_as_it_may(
    tmp_path: Path, restarts: int, fails: dict[str, int], code: int, starts: int
) -> None:
    """Runtime failures are tried again, faults of the configuration are not; the report of each start is kept."""
    made = plan(tmp_path, restarts)
    out, _ = (process := drive(tmp_path, made, fails)).communicate(timeout=200)
    assert process.returncode == code, out
    assert out.count("restart     ") == starts - 1
    rundir = RunDir(Path(made.run_dir))
    assert [one.ranks[0].exit_code for one in attempts(rundir)] == [7, 9][: starts - 1]
    last = json.loads(rundir.report.read_text())
    assert (last["attempt"], last["exit_code"]) == (starts, code)


def test_a_run_that_is_interrupted_is_not_started_again(tmp_path: Path) -> None:
    """Whoever asks for the end gets it."""
    made = plan(tmp_path, 500)
    process = drive(tmp_path, made, {str(number): 3 for number in range(1000)})
    assert process.stdout is not None
    while "restart     1" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=200)
    assert process.returncode in (130, -signal.SIGINT), out
    assert "restart     500 " not in out
