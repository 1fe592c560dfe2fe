"""`primus projection memory` as a user calls it, and what its figures have to obey."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from primus_core.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
REFERENCE = Path(__file__).parents[3] / "shared/reference/experiments"
MI300X = REFERENCE / "megatron/MI300X"
needs_reference = pytest.mark.skipif(not MI300X.exists(), reason=f"there are no reference experiments: {REFERENCE}")
PARTS = ("weights", "gradients", "main_weights", "moments", "buffers", "padding", "activations")


def project(capsys: pytest.CaptureFixture[str], file: Path, *words: str) -> Mapping[str, Any]:
    """The answer as data."""
    assert main(["projection", "memory", "--config", str(file), "--format", "json", *words]) == 0
    answer: Mapping[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def check(answer: Mapping[str, Any]) -> None:
    """No figure is negative, each sum is right, and the heaviest stage is the heaviest."""
    for stage in answer["stages"]:
        sizes = [stage[name] for name in PARTS]
        assert min(sizes) >= 0
        assert sum(sizes) == stage["bytes"]
        assert min(stage["parts"].values(), default=0) >= 0
        assert sum(stage["weight_parts"].values()) == stage["weights"]
        assert sum(stage["parts"].values()) == stage["activations"]
    heaviest = max(stage["bytes"] for stage in answer["stages"])
    assert answer["stages"][answer["heaviest"]]["bytes"] == heaviest
    assert answer["needed"] == heaviest + sum(one["bytes"] for one in answer["margin"])


def projected_or_refused(capsys: pytest.CaptureFixture[str], file: Path, *words: str) -> Mapping[str, Any] | str:
    """Figures that add up and are not negative; or the error of a run that would be refused, without a traceback."""
    code = main(["projection", "memory", "--config", str(file), "--format", "json", *words])
    told = capsys.readouterr()
    if code == 0:
        answer: Mapping[str, Any] = json.loads(told.out)
        check(answer)
        return answer
    assert code in (1, 2)
    assert told.err.startswith("error: ") or "errors" in told.err.splitlines()[0]
    return told.err
