"""Damaged checkpoints, full disks and two runs in one folder, caused for real; the screens are kept as golden text."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import golden
from tests.e2e.support import EXAMPLE, Primus, environment, no_process_left, wait_until
from tests.e2e.test_train import losses
from tests.forked.damage import change_a_byte
from tests.forked.disks import fill, small_disk

pytestmark = pytest.mark.cluster

RUN = (
    "run",
    EXAMPLE,
    "--nproc",
    "2",
    "eval_interval=null",
    "micro_batch_size=1",
    "global_batch_size=2",
    "seq_length=64",
    "train_iters=6",
    "save_interval=2",
)
AUTO = "auto_continue_train=true"
FIGURES = {
    r"loss [\d.]+": "loss <N>",
    r"grad norm [\d.]+": "grad norm <N>",
    r"  +[\d,.]+ tokens/s.*": "  <SPEED>",
    r"(?m)^(data  +).*": r"\1<PREPARED>",
    r"\d+ applied": "<N> applied",
    r"[\d,]+ of [\d,]+ bytes": "<PART> of <WHOLE> bytes",
}
"""What differs from run to run, and from machine to machine."""


def folder(workspace: Path) -> Path:
    return workspace / "examples/me/llama-tiny"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace of a run that saved at 2, 4 and 6, and met nothing."""
    workspace = tmp_path_factory.mktemp("finished") / "workspace"
    done = subprocess.run(
        [sys.executable, "-m", "primus_core.cli.main", *map(str, RUN)],
        env=environment(workspace),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return workspace


def check(done: subprocess.CompletedProcess[str], name: str, **replace: str) -> None:
    """Standard error first: what is told before the start is there. The ranks' own records have no fixed place."""
    shown = sorted((done.stderr + done.stdout).splitlines(), key=lambda line: line.startswith("warning, "))
    shown = [line for line in shown if not line.startswith("error, ")]
    golden.check("\n".join(shown), name, replace={**replace, **FIGURES})


def test_a_truncated_checkpoint(finished: Path, primus: Primus, workspace: Path) -> None:
    """The host warns, the ranks go on from the one before and repeat the losses of the run that met nothing."""
    shutil.copytree(finished, workspace, symlinks=True)
    checkpoints = folder(workspace) / "checkpoints"
    os.truncate(checkpoints / "iter_0000006/__0_0.distcp", 1000)
    done = primus(*RUN, AUTO)
    assert done.returncode == 0, done.stderr
    check(done, "checkpoint-truncated")
    assert not (folder(workspace) / "lock.json").exists()
    no_process_left(workspace)
    rows = [json.loads(line) for line in (folder(workspace) / "logs/pre_trainer/rank-0/metrics.jsonl").open()]
    assert [row["iteration"] for row in rows[6:]] == [5, 6]
    assert [row["loss"] for row in rows[6:]] == [losses(finished)[5], losses(finished)[6]]


def test_every_checkpoint_is_damaged(finished: Path, primus: Primus, workspace: Path) -> None:
    """An error before anything starts, never random weights."""
    shutil.copytree(finished, workspace, symlinks=True)
    for one in (folder(workspace) / "checkpoints").glob("iter_*"):
        (one / "metadata.json").unlink()
    done = primus(*RUN, AUTO)
    assert done.returncode == 2
    check(done, "checkpoint-all-damaged")


def test_checkpoints_are_verified_on_request(finished: Path, primus: Primus) -> None:
    """Each is sound, until a byte of one is another: then that file is named, and the exit code is 3."""
    run = folder(finished)
    assert primus("checkpoint", "verify", run).returncode == 0
    change_a_byte(run / "checkpoints/iter_0000004")
    try:
        done = primus("checkpoint", "verify", run)
        other = primus("checkpoint", "verify", run, "--step", "6")
    finally:
        change_a_byte(run / "checkpoints/iter_0000004")  # as it was
    assert (done.returncode, other.returncode) == (3, 0)
    check(done, "checkpoint-verify")


def test_a_disk_without_room_for_another_checkpoint(primus: Primus, workspace: Path, tmp_path: Path) -> None:
    """Both figures are told; the run goes on to its end, where the checkpoint that is missing is an error."""
    with small_disk(tmp_path / "disk", "size=20m") as disk:
        done = primus(*RUN, f"save={disk}/checkpoints")
        kept = sorted(path.name for path in (disk / "checkpoints").iterdir() if path.is_dir())
    assert (done.returncode, kept) == (3, ["iter_0000002"])
    assert len(losses(workspace)) == 6
    check(done, "checkpoint-no-room")
    assert not (folder(workspace) / "lock.json").exists()
    no_process_left(workspace)


def test_a_disk_that_becomes_full_while_a_checkpoint_is_written(
    finished: Path, primus: Primus, workspace: Path, tmp_path: Path
) -> None:
    """Somebody else fills it: nothing of the save stays, and with room again the run goes on to the same losses."""
    with small_disk(tmp_path / "disk", "size=40m") as disk:
        words = [*RUN, f"save={disk}/checkpoints"]
        with start(words, workspace, tmp_path) as run:
            wait_until((disk / "checkpoints/iter_0000004.saving").exists, "the second save", every=0.002)
            fill(disk / "filler")
            output, errors = run.communicate(timeout=400)
        kept = sorted(path.name for path in (disk / "checkpoints").iterdir() if path.is_dir())
        assert (run.returncode, kept) == (3, ["iter_0000002"])
        check(subprocess.CompletedProcess(words, 3, output, errors), "checkpoint-disk-full")
        no_process_left(workspace)
        (disk / "filler").unlink()
        assert primus(*words, AUTO).returncode == 0
    assert losses(workspace) == losses(finished)


def test_a_disk_that_becomes_full_while_the_background_writes(primus: Primus, workspace: Path, tmp_path: Path) -> None:
    """The run ends at its next look at the save: told as in the foreground, and nothing of it stays."""
    with small_disk(tmp_path / "disk", "size=100m") as disk:
        words = [*RUN, "--nproc=1", "--framework=torchtitan", "checkpoint.async_mode=async", f"save={disk}/checkpoints"]
        with start(words, workspace, tmp_path) as run:
            wait_until((disk / "checkpoints/step-4.saving").exists, "the second save", every=0.002)
            fill(disk / "filler")
            output, _ = run.communicate(timeout=400)
        kept = sorted(path.name for path in (disk / "checkpoints").iterdir())
    assert (run.returncode, kept) == (3, ["step-2"])
    assert "the disk became full while the checkpoint of iteration 4 was written" in output
    no_process_left(workspace)


@contextmanager
def start(
    words: list[str | Path] | tuple[str | Path, ...], workspace: Path, cwd: Path
) -> Iterator[subprocess.Popen[str]]:
    """A run that goes on while the test does; it is ended with the block."""
    run = subprocess.Popen(
        [sys.executable, "-m", "primus_core.cli.main", *map(str, words)],
        cwd=cwd,
        env=environment(workspace),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield run
    finally:
        run.kill()
        run.communicate()


def test_two_runs_in_one_folder(primus: Primus, workspace: Path, tmp_path: Path) -> None:
    """The second is refused at once and named the first, which goes on; a dry run is none, and writes nothing.

    A lock that a killed run left is taken over, and every end in good order leaves none.
    """
    long, lock = (*RUN, "train_iters=100000", "save_interval=null"), folder(workspace) / "lock.json"
    with start(long, workspace, tmp_path) as first:
        wait_until(lock.exists, "the lock")
        wait_until((folder(workspace) / "runs/latest/plan.json").exists, "the first plan")
        second = primus(*RUN, timeout=60)
        assert second.returncode == 3
        check(second, "two-runs", **{str(first.pid): "<PID>", r"\(<?\d.*?\)": "(<DURATION>)"})
        runs = sorted(path.name for path in (folder(workspace) / "runs").iterdir())
        assert primus(*RUN, "--dry-run").returncode == 0
        assert sorted(path.name for path in (folder(workspace) / "runs").iterdir()) == runs
        assert first.poll() is None
        assert json.loads(lock.read_text())["pid"] == first.pid
    no_process_left(workspace)
    assert lock.exists()  # it was killed
    with start(long, workspace, tmp_path) as third:
        wait_until(lambda: json.loads(lock.read_text())["pid"] == third.pid, "the lock is taken over")
        wait_until((folder(workspace) / "logs/pre_trainer/rank-0/metrics.jsonl").exists, "the training")
        third.send_signal(signal.SIGINT)
        _, errors = third.communicate(timeout=400)
        assert third.returncode == 130
    assert "warning: the lock of run" in errors
    assert not lock.exists()
    no_process_left(workspace)


def test_a_workspace_that_cannot_be_written(primus: Primus, workspace: Path) -> None:
    """A file system that is mounted for reading alone: told with the folder and what to do."""
    with small_disk(workspace, "size=1m,ro"):
        done = primus(*RUN)
    assert done.returncode == 3
    check(done, "workspace-unwritable-lock")
