"""Runs that are stopped, interrupted, killed and started again in place: what is printed, left, and learnt after.

What is about the processes of a run alone is tried with a back end that needs no library.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import golden
from tests.e2e.support import Primus, environment, no_process_left, processes, trainer, wait_until
from tests.e2e.test_bad_plugins import EXPERIMENT, HEALTHY, install
from tests.e2e.test_train import losses, start, wait_for_iteration

pytestmark = pytest.mark.slow

SMALL = ("micro_batch_size=1", "global_batch_size=2", "seq_length=64", "eval_interval=null", "train_iters=60")
FOLDER = Path("examples/me/llama-tiny")
AUTO = "auto_continue_train=true"
PATIENCE = 400
"""Seconds in which any of these runs ends, on a busy machine."""


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
    leave = re.compile(r"iteration |stop  |data |patches |validation |error, rank \d+: RuntimeError|    ")
    kept = [line for line in out.splitlines() if not leave.match(line)]
    return "\n".join(kept)


FIGURES = {
    r" \(weights and optimizer alone\)| without activations(?= for tensors)": "",  # whether the back end tells them
    r"interrupted .*, by": "interrupted <WHERE>, by",
    r"killed \d+ process\w*": "killed <N> processes",
    r"\biteration \d+": "iteration <N>",
    r"\bloss \d\.\d+": "loss <LOSS>",
    r"(iter_|step-)\d+": r"\g<1><N>",
    r"after its start.*": "after its start",
    r" \(x 1 more rank\)": "",  # on a busy machine the other rank is killed before it has ended by itself
}


def report(workspace: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((workspace / FOLDER / "runs/latest/report.json").read_text())
    return found


def is_saving(workspace: Path) -> bool:
    return any((workspace / FOLDER / "checkpoints").glob("*.saving"))


STOPS = {
    "megatron": ((signal.SIGTERM, "step"), (signal.SIGTERM, "save"), (signal.SIGUSR1, "step")),
    "torchtitan": ((signal.SIGTERM, "step"), (signal.SIGTERM, "save")),
}


@pytest.mark.parametrize("framework", STOPS)
def test_a_run_that_is_stopped_and_killed_has_the_losses_of_an_unbroken_one(
    primus: Primus, workspace: Path, tmp_path: Path, framework: str
) -> None:
    """Stopped in a step and in a save, then killed and started again in place: each time it goes on, to the same end.

    A stop is exit 0 with a checkpoint of the last iteration and a marker; a restart keeps the reports of the failure.
    """
    for number, when in STOPS[framework]:
        stop(workspace, tmp_path, framework, number, when)
    lose_a_rank(workspace, tmp_path, framework)
    shown = primus("report", workspace / FOLDER / "runs/latest")
    assert shown.returncode == 0, shown.stderr
    assert "SIGKILL" in shown.stdout
    unbroken = tmp_path / "unbroken"
    with running(unbroken, tmp_path, *words(framework, 1000)) as process:
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out
    assert losses(workspace) == losses(unbroken)


def stop(workspace: Path, tmp_path: Path, framework: str, number: signal.Signals, when: str) -> None:
    """Go on where the run is, if it was there before, and stop it in a step or in a save."""
    began = newest(workspace)
    options = words(framework, 8 if when == "save" else 1000)
    with running(workspace, tmp_path, *options, AUTO) as process:
        if when == "save":
            wait_until(lambda: is_saving(workspace), "a save", every=0.005)
        else:
            wait_for_iteration(workspace, began + 3)
        process.send_signal(number)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out
    assert f"stop        {number.name}: the run ends after iteration" in out
    assert (f"resume      from {checkpoint(workspace, framework, began)}" in out) == (began > 0)
    told = "\n".join(line for line in out.splitlines() if not line.startswith(("resume ", "start ")))
    golden.check(screen(told), f"stop-{number.name.lower()}-{framework}", replace=FIGURES)
    last, ended = newest(workspace), report(workspace)
    assert began < last < 60
    assert (ended["exit_code"], ended["stopped"], ended["result"]["iteration"]) == (0, number.name, last)
    marker = json.loads((workspace / FOLDER / "runs/latest/requeue.json").read_text())
    assert (marker["signal"], marker["iteration"]) == (number.name, last)
    assert marker["checkpoint"] == str(checkpoint(workspace, framework, last))


def lose_a_rank(workspace: Path, tmp_path: Path, framework: str) -> None:
    """Go on, kill a rank when a checkpoint has been saved, and let `max_restarts` bring the run to its end."""
    began = newest(workspace)
    with running(workspace, tmp_path, *words(framework, 10), AUTO, "max_restarts=1") as process:
        wait_until(lambda: saved(workspace, framework) > began, "another checkpoint")
        os.kill(trainer(workspace, 1), signal.SIGKILL)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out
    first, *others = [line for line in out.splitlines() if line.startswith("resume ")]
    assert first == f"resume      from {checkpoint(workspace, framework, began)}"
    assert others
    told = out.replace(first + "\n", "", 1)
    just_saved = {
        r"in phase save,": "in phase train,",
        r"in:  save,": "in:  train,",
    }  # it may not have left the save yet
    golden.check(screen(told), f"restart-{framework}", replace={**FIGURES, **just_saved})
    run = workspace / FOLDER / "runs/latest"
    assert report(workspace)["attempt"] == 2
    failed = json.loads((run / "attempts/1/report.json").read_text())
    assert (failed["exit_code"], failed["first_failure"]) == (3, 1)
    assert sorted(path.name for path in (run / "attempts/1").glob("rank-*.json")) == ["rank-0.json", "rank-1.json"]


def newest(workspace: Path) -> int:
    """The last iteration that was trained; 0 when there was none."""
    return max(losses(workspace)) if (workspace / FOLDER / "logs").exists() else 0


def checkpoint(workspace: Path, framework: str, iteration: int) -> Path:
    name = f"iter_{iteration:07d}" if framework == "megatron" else f"step-{iteration}"
    return workspace / FOLDER / "checkpoints" / name


def saved(workspace: Path, framework: str) -> int:
    """The iteration of the newest whole checkpoint."""
    whole = (path.parent.name for path in (workspace / FOLDER / "checkpoints").glob("*/primus.json"))
    return max((int(re.split("[_-]", name)[1]) for name in whole), default=0)


TRAIN = """
import subprocess, time

def run(plan, rank):
    subprocess.Popen(["sleep", "600"])
    for iteration in range(1, 100_000):
        time.sleep(0.05)
        rank.metrics({"iteration": iteration, "train_iters": 100_000, "loss": 1 / iteration})
    return {}
"""
"""A rank that does nothing for a long time, and has a process of its own."""
RANKS = (0, 1)


@contextmanager
def idling(workspace: Path, folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A run of two ranks that need no library; both have begun. It must leave no process whatever becomes of it."""
    group, name, source = HEALTHY["toy-backend"]
    install(folder / "site", {"toy-backend": (group, name, source.replace("x:y", "toy_backend:run") + TRAIN)})
    (folder / "exp.yaml").write_text(EXPERIMENT.replace("./out", str(workspace)))
    (folder / "empty.yaml").write_text("{}\n")
    words = ["run", "exp.yaml", "--launcher", "direct", "--nproc", str(len(RANKS)), "accelerator=cpu", *options]
    with subprocess.Popen(
        [sys.executable, "-m", "primus_core.cli.main", *words],
        cwd=folder,
        env=environment(workspace, PYTHONPATH=str(folder / "site")),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        wait_until(lambda: all(begun(workspace, rank) for rank in RANKS), "the first iterations of all ranks")
        yield process
    no_process_left(workspace)


def begun(workspace: Path, rank: int) -> int:
    """How often a rank has trained its first iteration."""
    path = workspace / f"team/me/exp/logs/fit/rank-{rank}/metrics.jsonl"
    return len(re.findall('"iteration": ?1,', path.read_text())) if path.exists() else 0


def requeued(workspace: Path) -> bool:
    return (workspace / "team/me/exp/runs/latest/requeue.json").exists()


def test_a_run_that_fails_too_often_fails(workspace: Path, tmp_path: Path) -> None:
    """A restart that saved nothing begins as the run did; after the last one the failure is the run's."""
    with idling(workspace, tmp_path, "max_restarts=1") as process:
        os.kill(trainer(workspace, 1), signal.SIGKILL)
        wait_until(lambda: all(begun(workspace, rank) == 2 for rank in RANKS), "the second start")
        os.kill(trainer(workspace, 0), signal.SIGKILL)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3, out
    golden.check(screen(out), "restart-in-vain", replace=FIGURES)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_a_run_and_a_second_one_ends_it_at_once(workspace: Path, tmp_path: Path, times: int) -> None:
    """Once: the ranks end in good order, without a checkpoint; twice: everything is killed."""
    early: list[str] = []
    with idling(workspace, tmp_path) as process:
        if times == 2:
            os.kill(trainer(workspace, 0), signal.SIGSTOP)  # a rank that would take its time
        process.send_signal(signal.SIGINT)
        if times == 2:
            assert process.stdout is not None
            while not early or "SIGINT" not in early[-1]:
                early.append(process.stdout.readline())
                assert early[-1], "".join(early)
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, out
    golden.check(screen("".join(early) + out), f"ctrl-c-{times}", replace=FIGURES)
    assert not requeued(workspace)


@pytest.mark.parametrize("victim", ["primus", "torchrun"])
def test_what_starts_the_ranks_is_killed_and_leaves_no_orphan(workspace: Path, tmp_path: Path, victim: str) -> None:
    """SIGKILL of `primus run` or of torchrun ends every process of the run within 15 s."""
    with idling(workspace, tmp_path) as process:
        torchrun = next(pid for pid, command, _ in processes(workspace) if "primus_launchers.torchrun" in command)
        os.kill(process.pid if victim == "primus" else torchrun, signal.SIGKILL)
        no_process_left(workspace)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == (-signal.SIGKILL if victim == "primus" else 3), out
    if victim == "torchrun":
        told = screen(re.sub(r"(?m)^killed .*\n", "", out))  # some ranks may not have noticed yet
        golden.check(told, "killed-torchrun", replace={**FIGURES, r"rank-\d/": "rank-<N>/"})
    assert not requeued(workspace)
