"""Runs that are stopped, interrupted, killed and started again in place: what is printed, left, and learnt after."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import golden
from tests.e2e.support import EXAMPLE, Primus, no_process_left, processes, trainer, wait_until
from tests.e2e.test_train import losses, start, wait_for_iteration

pytestmark = pytest.mark.cluster

SMALL = ("micro_batch_size=1", "global_batch_size=2", "seq_length=64", "eval_interval=null", "train_iters=60")
FRAMEWORKS = ("megatron", "torchtitan")
FOLDER = Path("examples/me/llama-tiny")
Losses = dict[int, float]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Losses]:
    """The losses of a run that nobody disturbs, by framework."""
    known: dict[str, Losses] = {}

    def of(framework: str) -> Losses:
        if framework not in known:
            folder = tmp_path_factory.mktemp(framework)
            with start(folder / "w", folder, *words(framework, 10)) as process:
                out, _ = process.communicate(timeout=300)
            assert process.returncode == 0, out
            known[framework] = losses(folder / "w")
        return known[framework]

    return of


def words(framework: str, save_interval: int) -> tuple[str, ...]:
    return ("--framework", framework, *SMALL, f"save_interval={save_interval}")


@contextmanager
def running(workspace: Path, tmp_path: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A run, which must leave no process whatever becomes of it."""
    with start(workspace, tmp_path, *options) as process:
        yield process
    no_process_left(workspace)


def screen(out: str) -> str:
    """Without what differs or comes when it may: preparation, progress, the word on a stop, what ranks say."""
    leave = re.compile(r"iteration |stop  |data |tokenizing|patches |validation |error, rank \d+: RuntimeError|    ")
    kept = [line for line in out.splitlines() if not leave.match(line)]
    return "\n".join(kept)


FIGURES = {
    r"interrupted .*, by": "interrupted <WHERE>, by",
    r"killed \d+ process\w*": "killed <N> processes",
    r"\biteration \d+": "iteration <N>",
    r"\bloss \d\.\d+": "loss <LOSS>",
    r"(iter_|step-)\d+": r"\g<1><N>",
    r"after its start.*": "after its start",
}


def report(workspace: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((workspace / FOLDER / "runs/latest/report.json").read_text())
    return found


def is_saving(workspace: Path) -> bool:
    return any((workspace / FOLDER / "checkpoints").glob("*.saving"))


CASES = [
    ("megatron", signal.SIGTERM, "step"),
    ("megatron", signal.SIGTERM, "save"),
    ("megatron", signal.SIGUSR1, "step"),
    ("torchtitan", signal.SIGTERM, "step"),
    ("torchtitan", signal.SIGTERM, "save"),
]


@pytest.mark.parametrize(("framework", "number", "when"), CASES)
def test_a_stopped_run_saves_and_goes_on_with_the_losses_of_an_unbroken_one(
    unbroken: Callable[[str], Losses],
    primus: Primus,
    workspace: Path,
    tmp_path: Path,
    framework: str,
    number: signal.Signals,
    when: str,
) -> None:
    """The signal comes in a step or in a save: exit 0, a checkpoint of the last iteration, a marker, nothing lost."""
    wanted = unbroken(framework)
    options = words(framework, 8 if when == "save" else 1000)
    with running(workspace, tmp_path, *options) as process:
        if when == "save":
            wait_until(lambda: is_saving(workspace), "a save")
        else:
            wait_for_iteration(workspace, 3)
        process.send_signal(number)
        out, _ = process.communicate(timeout=150)
    assert process.returncode == 0, out
    assert f"stop        {number.name}: the run ends after iteration" in out
    golden.check(screen(out), f"stop-{number.name.lower()}-{framework}", replace=FIGURES)
    last, ended = max(losses(workspace)), report(workspace)
    assert last < 60
    assert (ended["exit_code"], ended["stopped"], ended["result"]["iteration"]) == (0, number.name, last)
    marker = json.loads((workspace / FOLDER / "runs/latest/requeue.json").read_text())
    assert (marker["signal"], marker["iteration"]) == (number.name, last)
    assert marker["checkpoint"].endswith(str(last))
    again = primus("run", EXAMPLE, *options, "auto_continue_train=true", timeout=300)
    assert again.returncode == 0, again.stdout + again.stderr
    assert f"resume      from {marker['checkpoint']}" in again.stdout
    assert losses(workspace) == wanted


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_killed_rank_is_started_again_from_the_last_checkpoint(
    unbroken: Callable[[str], Losses], primus: Primus, workspace: Path, tmp_path: Path, framework: str
) -> None:
    """max_restarts: the failure is told, its reports are kept, and the losses are those of an unbroken run."""
    wanted = unbroken(framework)
    with running(workspace, tmp_path, *words(framework, 10), "max_restarts=1") as process:
        wait_for_iteration(workspace, 13)
        os.kill(trainer(workspace, 1), signal.SIGKILL)
        out, _ = process.communicate(timeout=250)
    assert process.returncode == 0, out
    golden.check(screen(out), f"restart-{framework}", replace=FIGURES)
    assert losses(workspace) == wanted
    run = workspace / FOLDER / "runs/latest"
    assert report(workspace)["attempt"] == 2
    failed = json.loads((run / "attempts/1/report.json").read_text())
    assert (failed["exit_code"], failed["first_failure"]) == (3, 1)
    assert sorted(path.name for path in (run / "attempts/1").glob("rank-*.json")) == ["rank-0.json", "rank-1.json"]
    shown = primus("report", run)
    assert shown.returncode == 0, shown.stderr
    assert "SIGKILL" in shown.stdout


def test_a_run_that_fails_too_often_fails(workspace: Path, tmp_path: Path) -> None:
    """A restart that saved nothing begins as the run did; after the last one the failure is the run's."""
    with running(workspace, tmp_path, *words("megatron", 1000), "max_restarts=1") as process:
        wait_for_iteration(workspace, 3)
        os.kill(trainer(workspace, 1), signal.SIGKILL)
        wait_until(lambda: [row for row in rows(workspace) if row["iteration"] == 1][1:], "the second start")
        os.kill(trainer(workspace, 0), signal.SIGKILL)
        out, _ = process.communicate(timeout=150)
    assert process.returncode == 3, out
    golden.check(screen(out), "restart-in-vain", replace=FIGURES)


def rows(workspace: Path) -> list[dict[str, Any]]:
    path = workspace / FOLDER / "logs/pre_trainer/rank-0/metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_a_run_and_a_second_one_ends_it_at_once(workspace: Path, tmp_path: Path, times: int) -> None:
    """Once: the ranks end in good order, without a checkpoint; twice: everything is killed."""
    with running(workspace, tmp_path, *words("megatron", 1000), "train_iters=100000") as process:
        wait_for_iteration(workspace, 3)
        if times == 2:
            os.kill(trainer(workspace, 0), signal.SIGSTOP)  # a rank that would take its time
        process.send_signal(signal.SIGINT)
        if times == 2:
            assert process.stdout is not None
            early = [process.stdout.readline()]
            while "SIGINT" not in early[-1]:
                early.append(process.stdout.readline())
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=150)
    assert process.returncode == 130, out
    golden.check(screen(("".join(early) if times == 2 else "") + out), f"ctrl-c-{times}", replace=FIGURES)
    assert not (workspace / FOLDER / "runs/latest/requeue.json").exists()


@pytest.mark.parametrize("victim", ["primus", "torchrun"])
def test_what_starts_the_ranks_is_killed_and_leaves_no_orphan(workspace: Path, tmp_path: Path, victim: str) -> None:
    """SIGKILL of `primus run` or of torchrun ends every process of the run within 15 s."""
    with running(workspace, tmp_path, *words("megatron", 1000), "train_iters=100000") as process:
        wait_for_iteration(workspace, 3)
        torchrun = next(pid for pid, command, _ in processes(workspace) if "primus_launchers.torchrun" in command)
        os.kill(process.pid if victim == "primus" else torchrun, signal.SIGKILL)
        no_process_left(workspace)
        out, _ = process.communicate(timeout=150)
    assert process.returncode == (-signal.SIGKILL if victim == "primus" else 3), out
    if victim == "torchrun":
        golden.check(screen(out), "killed-torchrun", replace={**FIGURES, r"rank-\d/": "rank-<N>/"})
    assert not (workspace / FOLDER / "runs/latest/requeue.json").exists()
