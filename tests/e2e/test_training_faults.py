"""Trainings that fail for real: the screen (kept as golden text), the exit code, and nothing left running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import golden
from tests.e2e.support import EXAMPLE, QUICK, Primus, environment, no_process_left, wait_until

FRAMEWORKS = pytest.mark.parametrize("framework", ["megatron", "torchtitan"])

ALONE = (*QUICK, "--nproc", "1")
"""Several ranks would meet each fault at the same time."""
VARIES = {
    r"[\w.-]+, device": "<HOST>, device",
    r"train, iteration \d+": "train, iteration <N>",
    r"(?m)^  at:  \S+ in .*\n": "",
}
"""When the fault is met, and in which line."""


def check(printed: str, name: str) -> None:
    golden.check(printed[printed.index("\nerror: ") :], name, replace=VARIES)


@pytest.mark.slow
@FRAMEWORKS
def test_a_loss_that_is_no_number(framework: str, primus: Primus, workspace: Path) -> None:
    """A learning rate beyond reason: the run ends in the iteration in which it shows, before anything is saved."""
    lost = ("lr=1e30", "min_lr=0", "lr_warmup_iters=0", "clip_grad=0")
    done = primus("run", EXAMPLE, *ALONE, *lost, "save_interval=4", "--framework", framework, timeout=400)
    assert done.returncode == 3, done.stdout + done.stderr
    no_process_left(workspace)
    check(done.stdout, f"nan-loss-{framework}")
    folder = workspace / "examples/me/llama-tiny"
    report = json.loads((folder / "runs/latest/report.json").read_text())
    assert report["diagnosis"]["kind"] == "nan"
    (rank,) = report["ranks"]
    assert (rank["phase"], rank["failure"]["type"]) == ("train", "RuntimeError")
    assert rank["iteration"] >= 1
    assert not list(folder.glob("checkpoints/*/metadata.json"))


def start(tmp_path: Path, workspace: Path, *words: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "primus_core.cli.main", *map(str, words)],
        cwd=tmp_path,
        env=environment(workspace),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def trains(workspace: Path) -> bool:
    rows = workspace / "examples/me/llama-tiny/logs/pre_trainer/rank-0/metrics.jsonl"
    return rows.exists() and len(rows.read_bytes().splitlines()) > 2


@pytest.mark.slow
@FRAMEWORKS
def test_a_token_file_that_is_cut_short_while_it_is_read(
    framework: str, primus: Primus, workspace: Path, tmp_path: Path
) -> None:
    """The file is named, with the size that it has and the one that its index needs."""
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"Document {n} has words, and so on and so forth." for n in range(20000)))
    made = primus("data", "tokenize", text, "--output", tmp_path / "tokens", "--tokenizer-type", "ByteLevelTokenizer")
    assert made.returncode == 0, made.stdout + made.stderr
    words = [
        f"train_data_path={tmp_path / 'tokens'}",
        "train_iters=100000",
        "tokenizer_type=ByteLevelTokenizer",
        "--framework",
        framework,
    ]
    process = start(tmp_path, workspace, "run", EXAMPLE, *ALONE, *words)
    wait_until(lambda: trains(workspace), "the third iteration")
    os.truncate(tmp_path / "tokens.bin", 4096)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 3, output
    no_process_left(workspace)
    check(output, f"data-cut-short-{framework}")
