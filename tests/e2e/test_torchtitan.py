"""One line changes the back end: the example of Megatron, trained by TorchTitan."""

from __future__ import annotations

import json
from pathlib import Path

from primus_core.log.metrics import NAMES
from tests.e2e.support import ROOT, Primus
from tests.e2e.test_train import CONSOLE

SHORT = ("train_iters=8", "lr_warmup_iters=2", "seq_length=64", "save_interval=4", "eval_interval=8", "eval_iters=1")


def test_the_example_trains_with_torchtitan(primus: Primus, workspace: Path) -> None:
    """The same file with another framework: a falling loss, the same console, metrics and report, and a checkpoint."""
    done = primus("run", ROOT / "examples/llama-tiny.yaml", "--framework", "torchtitan", *SHORT, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line and not CONSOLE.match(line)] == []
    folder = workspace / "examples/me/llama-tiny"
    for rank in (0, 1):
        log = folder / f"logs/pre_trainer/rank-{rank}"
        rows = [json.loads(line) for line in (log / "metrics.jsonl").read_text().splitlines()]
        assert [tuple(row) for row in rows] == [NAMES] * 8
        assert rows[-1]["loss"] < rows[0]["loss"] - 0.5
        # TorchTitan's own lines are records, each of them once.
        assert (log / "info.log").read_text().count("Training completed") == 1
    report = json.loads((folder / "runs/latest/report.json").read_text())
    assert report["result"]["checkpoint"] == str(folder / "checkpoints/step-8")
    assert {patch["state"] for patch in report["ranks"][0]["patches"]["results"]} == {"applied"}
    assert list((folder / "torchtitan/structured_logs").glob("*global_rank_1*"))
