"""The job script of a run, as text: what Slurm makes of it is tested on a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from primus_core.errors import ConfigError
from primus_core.plan import Job, Task
from primus_launchers.slurm.batch import batch_submission, job_script

JOB = Job(
    run_id="20260101-000000-abcdef",
    name="exp",
    task=Task(kind="train", entry="x:y"),
    python=sys.executable,
    argv=("-m", "primus_core.rank", "/w/runs/20260101-000000-abcdef/plan.json"),
    workdir="/",
    run_dir="/w/runs/20260101-000000-abcdef",
)


def test_a_submission_says_how_its_job_is_found() -> None:
    """The same flags are in the script and on the command line, where no variable SBATCH_* changes them."""
    submission = batch_submission(JOB, ["--nodes=2"])
    flags = [
        "--job-name=exp", "--output=/w/runs/20260101-000000-abcdef/submission/slurm-%j.out", "--open-mode=append",
        "--nodes=2",
    ]  # fmt: skip
    (process,) = submission.processes
    assert process.argv == ("sbatch", "--parsable", *flags, "/w/runs/20260101-000000-abcdef/submission/job.sh")
    assert [line for line in submission.files["job.sh"].splitlines() if line.startswith("#SBATCH ")] == [
        f"#SBATCH {flag}" for flag in flags
    ]
    assert submission.detached
    assert submission.cancel_argv == ("scancel", "{handle}")


@pytest.mark.parametrize("given", ["--output=/o", "--job-name=j", "--open-mode=truncate"])
def test_what_the_user_sets_is_not_doubled(given: str) -> None:
    """A default of Primus goes where the user has a value of their own."""
    name = given.partition("=")[0]
    (process,) = batch_submission(JOB, [given]).processes
    assert [word for word in process.argv if word.startswith(name)] == [given]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["--output=logs/%j.out"], ["--output=/home/50%%/logs/%j.out"]),
        (["--error=e", "--input=/i"], ["--error=/home/50%%/e", "--input=/i"]),
        (["--chdir=sub", "--output=o"], ["--chdir=/home/50%/sub", "--output=/home/50%%/sub/o"]),
        (["--chdir=/else", "--output=o"], ["--chdir=/else", "--output=/else/o"]),
        (["--output=\\%j", "--comment=a/b"], ["--output=\\%j", "--comment=a/b"]),
    ],
)
def test_files_are_where_the_user_typed(given: list[str], meant: list[str]) -> None:
    """A script that is moved, or pasted in another folder, writes to the same place; patterns stay patterns."""
    (process,) = batch_submission(evolve(JOB, workdir="/home/50%"), given).processes
    assert [word for word in process.argv if word.startswith(tuple(one.split("=")[0] for one in given))] == meant


@pytest.mark.parametrize("flag", ["--array=0-3", "--array=1,3", "--array=0-7%2"])
def test_tasks_of_an_array_do_not_train_at_once(flag: str) -> None:
    """They are one run: the error says how they become a chain."""
    with pytest.raises(ConfigError, match="would run at once") as caught:
        batch_submission(JOB, [flag])
    assert "%1 makes a chain" in caught.value.remedy
    assert batch_submission(JOB, ["--array=0-3%1"]).detached


def test_a_flag_that_no_line_can_hold_is_refused() -> None:
    """A line break would start another line of the script."""
    with pytest.raises(ConfigError, match="line break"):
        batch_submission(JOB, ["--comment=a\nb"])


def test_bash_starts_the_plan_from_any_folder(tmp_path: Path) -> None:
    """Folders and plans of any name reach `primus start` as they are, with Slurm's numbers of the job and its start."""
    folder = tmp_path / "a 'quoted' $HOME folder;#"
    folder.mkdir()
    program = folder / "python"
    program.write_text('#!/bin/bash\npwd -P\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    plan = str(folder / "plan.json")
    text = job_script(evolve(JOB, python=str(program), workdir=str(folder), argv=("-m", "x", plan)), [])
    env = {**os.environ, "SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "3"}
    done = subprocess.run(["bash"], input=text, capture_output=True, text=True, env=env, cwd="/", check=True)
    assert done.stdout.splitlines() == [
        str(folder), "-m", "primus_core.cli.main", "start", plan, "--handle", "12", "--starts", "3"
    ]  # fmt: skip


def test_a_job_ends_where_its_folder_is_gone(tmp_path: Path) -> None:
    """Nothing is started in another folder than the one that was asked for."""
    text = job_script(evolve(JOB, workdir=str(tmp_path / "gone")), [])
    done = subprocess.run(["bash"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "gone" in done.stderr
