"""`primus run` from the file to the trained model, as a user sees it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import EXAMPLE, QUICK, Primus, environment, no_process_left, trainer, wait_until

CONSOLE = re.compile(
    r"""^(
      train\s.* | run\s.* | patches\s.* | data\s.* | resume\s.* | start\s.* | checkpoint\s.* | logs\s.* | report\s.*
      | model\s.* | memory\s.* | iteration\s.* | validation\s.* | done\s.* | reading\s.* | tokenizing\s.*
    )$""",
    re.VERBOSE,
)
"""Every line that a healthy run may print."""


def metrics(workspace: Path, rank: int) -> list[dict[str, Any]]:
    path = workspace / f"examples/me/llama-tiny/logs/pre_trainer/rank-{rank}/metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def losses(workspace: Path, rank: int = 0) -> dict[int, float]:
    return {row["iteration"]: row["loss"] for row in metrics(workspace, rank)}


def test_example_learns_on_two_ranks(primus: Primus, workspace: Path) -> None:
    """The example learns: two ranks, complete metrics of both, quiet console, checkpoint, report, exit 0."""
    done = primus("run", EXAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    noise = [line for line in done.stdout.splitlines() if line and not CONSOLE.match(line)]
    assert noise == []
    for rank in (0, 1):
        rows = metrics(workspace, rank)
        assert [row["iteration"] for row in rows] == list(range(1, 101))
        assert all(row["tokens_per_second"] > 0 and row["step_seconds"] > 0 and row["tflops"] > 0 for row in rows)
        assert all(row["memory_bytes"] > 1 << 20 and row["grad_norm"] > 0 and row["lr"] >= 0 for row in rows)
        assert {row["rank"] for row in rows} == {rank}
    values = losses(workspace)
    assert 5.3 < values[1] < 5.8
    assert sum(values[iteration] for iteration in range(91, 101)) / 10 < 3.0
    folder = workspace / "examples/me/llama-tiny"
    assert (folder / "checkpoints/iter_0000100").is_dir()
    assert json.loads((folder / "runs/latest/report.json").read_text())["exit_code"] == 0
    assert f"{values[100]:.3f}" in done.stdout
    log = (folder / "logs/pre_trainer/rank-0/debug.log").read_text()
    assert "stdout" in log
    assert "cpu" in log


def test_dry_run_commands_train(primus: Primus, workspace: Path, tmp_path: Path) -> None:
    """A dry run writes nothing; its two printed commands, pasted, train."""
    done = primus("run", EXAMPLE, *QUICK, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert not workspace.exists()
    plan, launch = done.stdout.strip().splitlines()[-2:]
    assert plan.endswith(" &&")
    assert primus(*shlex.split(plan)[1:-1]).returncode == 0
    ranks = subprocess.run(
        shlex.split(launch), cwd=tmp_path, env=environment(workspace), capture_output=True, text=True, check=False
    )
    assert ranks.returncode == 0, ranks.stderr
    assert sorted(losses(workspace)) == [1, 2, 3, 4]
    assert "iteration 4/4" in ranks.stdout


def test_reference_spelling(primus: Primus, workspace: Path) -> None:
    """`primus-cli direct -- train pretrain --config` is the same run."""
    words = (*QUICK, "train_iters=2", "--run-id", "same", "--dry-run")
    spelt = primus("direct", "--nproc", "1", "--", "train", "pretrain", "--config", EXAMPLE, *words)
    assert spelt.returncode == 0, spelt.stdout + spelt.stderr
    assert spelt.stdout == primus("run", EXAMPLE, "--nproc", "1", *words).stdout


def test_single_launcher(primus: Primus, workspace: Path) -> None:
    """One rank needs no torchrun; two ranks need the launcher that has it, which the message names.

    `key=value` words change the run they are given to.
    """
    changed = ("train_iters=2", "lr=1e-3", "lr_warmup_iters=0", "lr_decay_style=constant")
    done = primus("run", EXAMPLE, *QUICK, "--launcher", "single", "--nproc", "1", *changed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row["iteration"] for row in metrics(workspace, 0)] == [1, 2]
    assert [row["lr"] for row in metrics(workspace, 0)] == [pytest.approx(1e-3)] * 2
    refused = primus("run", EXAMPLE, *QUICK, "--launcher", "single", "--nproc", "2")
    assert refused.returncode == 2
    assert "primus-launchers" in refused.stderr


def test_vocabulary_larger_than_the_model(primus: Primus, workspace: Path) -> None:
    """Tokens that the model has no row for are refused before training, with the file and the remedy."""
    done = primus("run", EXAMPLE, *QUICK, "vocab_size=200", "--nproc", "1")
    assert done.returncode == 2, done.stdout + done.stderr
    told = done.stdout + done.stderr
    assert "vocab_size" in told
    assert "259" in told
    assert "Traceback" not in told
    assert not (workspace / "examples/me/llama-tiny/logs/pre_trainer/rank-0/metrics.jsonl").exists()


def start(workspace: Path, tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "primus_core.cli.main", "run", str(EXAMPLE), *words],
        cwd=tmp_path,
        env=environment(workspace),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for_iteration(workspace: Path, iteration: int) -> None:
    def reached() -> bool:
        try:
            return iteration in losses(workspace)
        except (OSError, ValueError):
            return False

    wait_until(reached, f"iteration {iteration}")


def test_ctrl_c_leaves_no_process(workspace: Path, tmp_path: Path) -> None:
    """Ctrl-C ends every process of the run, and the shell sees that it was interrupted."""
    with start(workspace, tmp_path, *QUICK, "train_iters=100000") as process:
        wait_for_iteration(workspace, 2)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=400)
    assert process.returncode == 130, out
    no_process_left(workspace)


RESUME = (
    "micro_batch_size=2",
    "global_batch_size=4",
    "seq_length=64",
    "train_iters=24",
    "save_interval=4",
    "eval_interval=null",
)


def test_resume_after_sigkill_is_bit_equal(primus: Primus, workspace: Path, tmp_path: Path) -> None:
    """A run killed between two saves continues from the last complete one with the very losses of an unbroken run.

    The newest checkpoint without its complete marker is passed over for the one before.
    """
    assert primus("run", EXAMPLE, *RESUME, "exp_name=llama-tiny").returncode == 0
    unbroken = losses(workspace)
    other = tmp_path / "other"
    with start(other, tmp_path, *RESUME) as process:
        wait_for_iteration(other, 6)
        for pid in (trainer(other, 0), trainer(other, 1)):
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=400)
    seen = max(losses(other))
    assert seen < 24
    resumed = primus("run", EXAMPLE, *RESUME, "auto_continue_train=true", PRIMUS_WORKSPACE=str(other))
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "resume" in resumed.stdout
    assert losses(other) == unbroken
    folder = Path("examples/me/llama-tiny")
    compared = primus("compare", workspace / folder, other / folder, "--format", "json")
    found = json.loads(compared.stdout)
    assert found["common"] == {"first": 1, "last": 24, "count": 24}
    assert found["loss"]["largest"]["relative"] == 0
    assert len(found["b"]["continues"]) == 1
    assert {one["name"] for one in found["differences"]} >= {"workspace", "auto_continue_train"}
    (workspace / folder / "checkpoints/iter_0000024/primus.json").unlink()
    again = primus("run", EXAMPLE, *RESUME, "auto_continue_train=true")
    assert again.returncode == 0, again.stdout + again.stderr
    rows = metrics(workspace, 0)
    assert [row["iteration"] for row in rows] == [*range(1, 25), *range(21, 25)]
    assert {row["iteration"]: row["loss"] for row in rows[24:]} == {n: unbroken[n] for n in range(21, 25)}
