"""Every example of the repository can be planned, and trained from its file alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.support import ROOT, Primus
from tests.e2e.test_train import CONSOLE

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
FRAMEWORKS = ("megatron", "torchtitan")
SHORT = ("train_iters=8", "lr_warmup_iters=2", "seq_length=64", "save_interval=null", "eval_interval=8", "eval_iters=1")


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_plans(primus: Primus, workspace: Path, example: Path, framework: str) -> None:
    """A dry run with either back end has nothing against it, and writes nothing."""
    done = primus("run", example, "--dry-run", f"framework={framework}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"train       {example.stem} with {framework}")
    assert "warning" not in done.stdout
    assert "2 ranks" in done.stdout
    assert not workspace.exists()


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", ["qwen3-moe-tiny", "deepseek-v3-tiny"])
def test_an_example_learns(primus: Primus, workspace: Path, name: str, framework: str) -> None:
    """A few iterations lower the loss on both ranks, and the console ends with the losses of the evaluations."""
    done = primus("run", ROOT / f"examples/{name}.yaml", f"framework={framework}", *SHORT, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line and not CONSOLE.match(line)] == []
    for rank in (0, 1):
        log = workspace / f"examples/me/{name}/logs/pre_trainer/rank-{rank}/metrics.jsonl"
        losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
        assert len(losses) == 8
        assert losses[-1] < losses[0] - 0.5
    told = re.findall(r"^validation  loss (\S+) at (.*)$", done.stdout, re.MULTILINE)
    assert [when for _, when in told] == ["iteration 8", "iteration 8 on validation set"]
    assert all(losses[-1] - 0.5 < float(loss) < losses[0] for loss, _ in told)
