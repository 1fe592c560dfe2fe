"""One line changes the back end: the example of Megatron, trained by TorchTitan, and what then is the same."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from primus_core.log.metrics import NAMES
from tests.e2e.support import EXAMPLE, Primus, no_process_left
from tests.e2e.test_train import CONSOLE, RESUME, losses, start, wait_for_iteration

SHORT = ("train_iters=8", "lr_warmup_iters=2", "seq_length=64", "save_interval=4", "eval_interval=8", "eval_iters=1")


def test_the_example_trains_with_torchtitan(primus: Primus, workspace: Path) -> None:
    """The same file with another framework: a falling loss, the same console, metrics and report, and a checkpoint."""
    done = primus("run", EXAMPLE, "--framework", "torchtitan", *SHORT, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line and not CONSOLE.match(line)] == []
    folder = workspace / "examples/me/llama-tiny"
    for rank in (0, 1):
        log = folder / f"logs/pre_trainer/rank-{rank}"
        rows = [json.loads(line) for line in (log / "metrics.jsonl").read_text().splitlines()]
        assert [tuple(row) for row in rows] == [NAMES] * 8
        assert rows[-1]["loss"] < rows[0]["loss"] - 0.5
        check_log(log, rank)
    report = json.loads((folder / "runs/latest/report.json").read_text())
    assert report["result"]["checkpoint"] == str(folder / "checkpoints/step-8")
    assert {patch["state"] for patch in report["ranks"][0]["patches"]["results"]} == {"applied"}
    check_traces(folder)


ONCE = (
    "Building device mesh with",
    "Training starts at step 1",
    " root step:  8  loss",
    "validate step:",
    "Training completed",
)
"""Parts of lines that TorchTitan writes once in a run, by the root logger."""


def check_log(folder: Path, rank: int) -> None:
    """TorchTitan's own lines are records, each of them once: by logging alone, never by its handler's stdout too."""
    lines = (folder / "info.log").read_text().splitlines()
    for part in ONCE:
        found = [line for line in lines if part in line]
        assert len(found) == (2 if "validate" in part else 1), part  # of the interval, and of the end
        assert all(" INFO root " in line for line in found)
    adjusted = [line.partition(" adjusted ")[2] for line in lines if " adjusted " in line]
    assert bool(adjusted) == (rank == 0)
    assert len(adjusted) == len(set(adjusted))
    assert not [line for line in lines if "[titan]" in line]
    text = (folder / "debug.log").read_text()
    assert "_start" not in text  # of the spans, which have their file
    assert text.count(" primus checkpoint complete ") == 2


def check_traces(folder: Path) -> None:
    """TorchTitan's structured log is a file of its own for each rank, complete, and nowhere else."""
    for rank in (0, 1):
        (path,) = (folder / "torchtitan/structured_logs").glob(f"*global_rank_{rank}.*")
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        assert [entry["seq_id"] for entry in entries] == list(range(len(entries)))
        names = [entry["log_type_name"] for entry in entries]
        assert (names.count("training_start"), names.count("step_start"), names.count("step_end")) == (1, 8, 8)


TITAN = ("framework=torchtitan", *RESUME)
PIPELINE = ("pipeline_model_parallel_size=2", "eval_interval=2", "eval_iters=1", "train_iters=2", "save_interval=null")


def report(workspace: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((workspace / "examples/me/llama-tiny/runs/latest/report.json").read_text())
    return content


@pytest.mark.slow
def test_a_pipeline_shows_the_loss_of_its_last_stage(primus: Primus, workspace: Path) -> None:
    """On the console and in the log of every rank, of training and validation: never the -1 of the other stages."""
    done = primus("run", EXAMPLE, *TITAN, *PIPELINE, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line and not CONSOLE.match(line)] == []
    last = losses(workspace, 1)
    assert losses(workspace, 0) == {1: None, 2: None}
    for iteration in (1, 2):
        assert f"iteration {iteration}/2  loss {last[iteration]:#.4g}" in done.stdout
    assert report(workspace)["result"]["loss"] == last[2]
    (shown,) = {
        line.split()[2] for line in done.stdout.splitlines() if line.startswith("validation") and "set" not in line
    }
    for rank in (0, 1):
        log = (workspace / f"examples/me/llama-tiny/logs/pre_trainer/rank-{rank}/info.log").read_text()
        assert "-1.0" not in log
        assert f"loss:  {last[1]:.5f}" in log
        assert f"loss {shown} at iteration 2" in log


@pytest.mark.slow
def test_ctrl_c_leaves_no_process(workspace: Path, tmp_path: Path) -> None:
    """Ctrl-C ends every process of the run, and the shell sees that it was interrupted."""
    with start(workspace, tmp_path, *TITAN, "train_iters=100000", "save_interval=null") as process:
        try:
            wait_for_iteration(workspace, 2)
        finally:
            os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=400)
    assert process.returncode == 130, out
    no_process_left(workspace)
