"""Jobs that come to a limit of Slurm, of time or of memory, and those that go on after it."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.jobs import ITERATIONS, LONG, User, leaving_nothing, reach
from tests.testbed.slurm import Slurm, lacking

pytestmark = pytest.mark.cluster

ENDLESS = 5000
"""Iterations that no machine has done before Slurm next looks at the clock."""


@pytest.fixture
def user(slurm: Slurm, tmp_path: Path) -> Iterator[User]:
    with leaving_nothing(slurm, tmp_path) as one:
        yield one


def end_in(slurm: Slurm, job: str, seconds: int) -> None:
    """Bring the end of a job's time near; Slurm looks at the clock every half a minute."""
    slurm.ask("scontrol", "update", f"JobId={job}", f"EndTime=now+{seconds}")


def test_a_signal_before_the_time_limit(user: User) -> None:
    """`--signal` has the ranks save; the job is queued again, and goes on from there."""
    slurm = user.slurm
    job = user.train("megatron", "--time=30", "--signal=USR1@120", iterations=ENDLESS)
    reach(user, 3)
    end_in(slurm, job, 100)
    slurm.wait_state(job, "PENDING", seconds=LONG)
    assert user.status(job)["state"] == "requeued"
    (asked,) = user.workspace.glob("*/*/*/runs/latest/requeue.json")
    stopped = json.loads(asked.read_text())
    assert (stopped["signal"], stopped["iteration"]) == ("SIGUSR1", max(user.losses()))
    slurm.ask("scontrol", "update", f"JobId={job}", "TimeLimit=30")
    slurm.go_on(job)
    reach(user, stopped["iteration"] + 1)
    assert user.status(job)["state"] == "running"
    printed = user.printed(job)
    assert f"requeue     job {job} is queued again" in printed
    assert re.search(rf"resume +from .*iter_{stopped['iteration']:07d}", printed), printed


def test_a_time_limit(user: User) -> None:
    """Who watches is told that the time was over; of a job script `status` says it too, with Slurm's own word."""
    slurm = user.slurm
    watched = user.start("slurm", "srun", "-N1", "--gpus-per-node=1", "--job-name=w", "--", *user.script("sleeps"))
    job = user.program("sleeps", "-N1")
    slurm.wait(lambda: len(slurm.ask("squeue", "-ht", "R", "-o", "%i").split()) == 2, "both jobs", LONG)
    first = slurm.ask("squeue", "-hn", "w", "-o", "%i")
    for number in (first, job):
        user.wait_up(number, 1)
        end_in(slurm, number, 1)
    out, err = watched.communicate(timeout=LONG)
    slurm.wait_state(job, "TIMEOUT", seconds=LONG)
    assert watched.returncode == 3, out + err
    told = user.primus("status", job).stdout
    assert f"job         {job} of slurm: TIMEOUT" in told
    for text in (out, user.printed(job), told):
        assert "error: the job's time was over" in text, text
        assert "DUE TO TIME LIMIT" in text
        assert "ask for more with -t" in text


def test_a_memory_limit(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A job that takes more than `--mem` is ended by Slurm, which is told with the limit and what to do."""
    if reason := lacking():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("own")
    watching = {
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": "task=1",
        "JobAcctGatherParams": "OverMemoryKill",
        "SelectTypeParameters": "CR_Core_Memory",
    }
    with Slurm(1, folder / "s", watching) as slurm:
        user = User(slurm, folder)
        process = user.start("slurm", "srun", "-N1", "--gpus-per-node=1", "--mem=1000", "--", *user.script("eats"))
        out, err = process.communicate(timeout=LONG)
    assert process.returncode == 3, out + err
    assert "error: a node's memory ran out: Slurm ended the job" in out
    assert re.search(r"why: StepId=\S+ exceeded memory limit \(\d+ > 1048576000\), being killed", out), out
    assert "ask for more with --mem" in out


def test_a_chain_of_jobs_that_are_not_queued_again(user: User) -> None:
    """The first one is stopped and stays so; the next of the chain goes on from there to the end."""
    slurm = user.slurm
    chain = user.train("torchtitan", "--array=1-2%1", "--no-requeue")
    reach(user, 3)
    slurm.ask("scancel", "--signal=USR1", f"{chain}_1")
    slurm.wait(lambda: user.status(chain)["state"] == "completed", "both jobs", LONG)
    assert sorted(user.losses()) == list(range(1, ITERATIONS + 1))
    first, second = (path.read_text() for path in outputs(user))
    assert re.search(r"requeue +job \d+ is not queued again: it was submitted with --no-requeue", first), first
    assert re.search(r"resume +from", second), second


def outputs(user: User) -> list[Path]:
    """What the jobs printed, in the order of their ends: the last task of an array has its lowest number."""
    found = user.workspace.glob("*/*/*/runs/latest/submission/slurm-*.out")
    return sorted(found, key=lambda path: path.stat().st_mtime)


def test_ctrl_c_while_it_waits_for_the_job(user: User) -> None:
    """`--wait` ends; the job goes on, and how to end it is said."""
    flags = ("sbatch", "-N1", "--gpus-per-node=1", "--wait")
    process = user.start("slurm", *flags, "--", *user.script("sleeps"))
    user.slurm.wait(lambda: user.slurm.ask("squeue", "-ho", "%T") == "RUNNING", "the job", LONG)
    job = user.slurm.ask("squeue", "-ho", "%i")
    user.wait_up(job, 1)
    user.slurm.hosts.signal(process, signal.SIGINT)
    out, err = process.communicate(timeout=LONG)
    assert process.returncode == 130, out + err
    assert f"interrupted job {job} goes on; `primus cancel" in out
    assert user.slurm.state(job) == "RUNNING"
    assert user.primus("cancel", job).returncode == 0
    user.slurm.wait_state(job, "CANCELLED", seconds=LONG)
