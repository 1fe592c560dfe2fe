"""Runs that are handed to Slurm: their jobs crash, are preempted, cancelled, queued again, forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.jobs import ITERATIONS, LONG, PROGRAM, SMALL, User, leaving_nothing, reach, unbroken
from tests.e2e.support import EXAMPLE
from tests.testbed.slurm import Slurm, lacking

pytestmark = pytest.mark.cluster


@pytest.fixture
def user(slurm: Slurm, tmp_path: Path) -> Iterator[User]:
    with leaving_nothing(slurm, tmp_path) as one:
        yield one


WATCHFUL = {"SlurmdTimeout": "10", "MessageTimeout": "8", "TCPTimeout": "2"}
"""With these the controller finds out in seconds that a node is gone, or only slow."""


@pytest.fixture
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """On a cluster of their own, which a test may break."""
    if reason := lacking():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("own")
    with Slurm(3, folder / "s", WATCHFUL) as slurm:
        yield User(slurm, folder)


def test_a_node_that_crashes(fragile: User) -> None:
    """Slurm queues the job again; it goes on from its checkpoint, with the losses of a run that nobody disturbed."""
    user, slurm = fragile, fragile.slurm
    job = user.train("megatron", "--requeue")
    first = slurm.wait_state(job, "RUNNING")["BatchHost"]
    reach(user, 11)
    slurm.crash(first)
    with unbroken(user, "megatron") as expected:
        slurm.wait_state(job, "PENDING", seconds=LONG)
        assert user.status(job)["state"] == "requeued"
        slurm.go_on(job)
        slurm.wait_state(job, "COMPLETED", seconds=LONG)
        assert user.losses() == pytest.approx(expected(), rel=1e-6)
    told = user.primus("status", job).stdout
    assert "status      completed" in told
    assert f"done        iteration {ITERATIONS}" in told
    assert "start 1 of the run was cut short" in user.primus("report", job).stdout
    assert re.search(r"resume +from .*iter_0000010", user.printed(job)), user.printed(job)


def test_a_job_that_is_preempted(user: User) -> None:
    """It saves, asks to be queued again, and goes on after the urgent one, with the losses of an undisturbed run."""
    slurm = user.slurm
    job = user.train("torchtitan")
    reach(user, 3)
    urgent = slurm.ask("sbatch", "--parsable", "-purgent", "-N3", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")
    slurm.wait_state(job, "PENDING", seconds=LONG)
    status = user.status(job)
    assert (status["state"], status["exit_code"]) == ("requeued", 0)
    with unbroken(user, "torchtitan") as expected:
        slurm.wait_state(urgent, "COMPLETED")
        slurm.go_on(job)
        slurm.wait_state(job, "COMPLETED", seconds=LONG)
        assert user.losses() == pytest.approx(expected(), rel=1e-6)
    assert user.status(job)["state"] == "completed"
    printed = user.printed(job)
    assert f"requeue     job {job} is queued again" in printed
    assert "resume      from" in printed


def test_a_rank_that_exits_with_3(user: User) -> None:
    """The job ends with 3; who waited for it and who asks later read which rank it was, on which host."""
    path = user.folder / "program.py"
    path.write_text(PROGRAM)
    words = ("-N2", "--gpus-per-node=1", "--wait", "--", "direct", "--script", path, "--", "fails", user.folder)
    done = user.primus("slurm", "sbatch", *words)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "error: rank 1 failed" in done.stdout
    assert "a plain word of rank 1" in done.stdout
    job = re.search(r"^job +(\d+)$", done.stdout, re.MULTILINE)
    assert job, done.stdout
    ended = user.slurm.wait_state(job[1], "FAILED")
    assert ended["ExitCode"] == "3:0"
    status = user.status(job[1])
    assert (status["state"], status["exit_code"], status["first_failure"]) == ("failed", 3, 1)
    told = user.primus("status", job[1]).stdout
    assert f"job         {job[1]} of slurm: FAILED, exit code 3" in told
    assert re.search(r"error: rank 1 failed.*\n(.*\n)*  in:  .*\bon node\d", told), told
    assert "a plain word of rank 1" in user.primus("logs", job[1]).stdout


def test_a_script_that_is_submitted_by_hand(user: User, tmp_path: Path) -> None:
    """It needs neither the folder it was made in, nor itself, nor the experiment file once Slurm has taken it."""
    experiment, elsewhere = user.folder / "exp.yaml", tmp_path / "else where"
    experiment.write_text(EXAMPLE.read_text())
    elsewhere.mkdir()
    words = ("train", "pretrain", "--config", experiment, *SMALL, "train_iters=2", "save_interval=null")
    made = user.primus("slurm", "sbatch", "-N1", "--gpus-per-node=2", "--output-script", "job.sh", "--", *words)
    assert made.returncode == 0, made.stdout + made.stderr
    script = user.folder / "job.sh"
    text = script.read_text()
    assert not [word for word in re.findall(r"\S+/\S+", text) if word.startswith("./")], text
    moved = script.rename(elsewhere / "a job.sh")
    job = user.slurm.run(["sbatch", "--parsable", "--hold", moved], cwd=elsewhere).stdout.strip()
    moved.unlink()
    experiment.unlink()
    user.slurm.ask("scontrol", "release", job)
    user.slurm.wait_state(job, "COMPLETED", "FAILED", seconds=LONG)
    status = user.status(job)
    assert status["state"] == "completed", user.printed(job)
    assert sorted(user.losses()) == [1, 2]
    assert list(elsewhere.iterdir()) == []


def test_jobs_that_are_cancelled(user: User) -> None:
    """One that waits and one that runs: both are gone at once, and told to be cancelled, not to be queued again."""
    slurm = user.slurm
    waits = user.program("sleeps", "--begin=now+1hour")
    assert user.status(waits)["state"] == "pending"
    assert "PENDING (BeginTime" in user.primus("status", waits).stdout
    runs = user.program("sleeps")
    user.wait_up(runs)
    status = user.status(runs)
    assert status["state"] == "running"
    for run in (waits, status["run_id"]):
        done = user.primus("cancel", run)
        assert done.returncode == 0, done.stdout + done.stderr
    slurm.wait_idle(LONG)
    assert [user.status(job)["state"] for job in (waits, runs)] == ["cancelled", "cancelled"]
    assert "is not going on" in user.primus("cancel", runs).stdout


def test_dependencies_and_chains(user: User) -> None:
    """A run waits for another one; the second task of a chain finds that the first has done it all."""
    slurm = user.slurm
    first = user.program("ends", "--hold")
    second = user.program("ends", f"--dependency=afterok:{first}", "--array=1-2%1")
    slurm.wait(lambda: "(Dependency" in user.primus("status", second).stdout, "dependency")
    slurm.ask("scontrol", "release", first)
    slurm.wait(lambda: user.status(second)["state"] == "completed", "both runs", LONG)
    assert user.status(first)["state"] == "completed"
    files = {path.resolve() for path in user.workspace.glob("*/*/*/runs/*/submission/slurm-*.out")}
    outputs = [path.read_text() for path in files]
    assert sum("nothing is left to do" in text for text in outputs) == 1, outputs


def test_jobs_that_slurm_has_forgotten(user: User) -> None:
    """Without accounting nobody knows them any more: what they left is told, and of others that they are lost."""
    done, gone = user.program("ends"), user.program("sleeps", "--begin=now+1hour")
    user.slurm.wait_state(done, "COMPLETED", seconds=LONG)
    user.slurm.forget()
    assert user.status(done)["state"] == "completed"
    status = user.status(gone)
    assert (status["state"], status["scheduler"]["text"]) == ("lost", "Slurm does not know it any more")


def test_what_slurm_refuses(user: User) -> None:
    """Its own words are told, and no job is."""
    words = ("-N2", "--gpus-per-node=1", "--partition=none", "--", "train", "pretrain", "--config", EXAMPLE, *SMALL)
    done = user.primus("slurm", "sbatch", *words)
    assert done.returncode == 1
    assert "sbatch did not take the run" in done.stderr
    assert "nvalid partition" in done.stderr
    missing = user.primus("slurm", "sbatch", "-N2", "--", "train", "pretrain", "--config", "none.yaml")
    assert missing.returncode == 2
    assert "none.yaml" in missing.stderr
    assert user.slurm.ask("squeue", "--noheader") == ""


def test_options_reach_slurm_as_they_are(user: User) -> None:
    """Blanks, quotes, backslashes and dollars of a script's lines are those that were asked for."""
    for number, name in enumerate(("a b", "it's", 'say "x"', "back\\slash", "# hash", "$HOME `id`", "größer 数")):
        path = user.folder / f"{number}.sh"
        words = ("train", "pretrain", "--config", EXAMPLE, *SMALL)
        made = user.primus("slurm", "sbatch", "-N1", f"--comment={name}", f"--output-script={path}", "--", *words)
        assert made.returncode == 0, made.stdout + made.stderr
        job = user.slurm.ask("sbatch", "--parsable", "--hold", path)
        assert user.slurm.ask("squeue", "--noheader", "--jobs", job, "--format=%k") == name
