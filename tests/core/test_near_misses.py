"""Words of the command line that nearly are what they should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from primus_core.cli.main import main

EXAMPLE = str(Path(__file__).parents[2] / "examples/llama-tiny.yaml")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("mdoel=x", "`model`"),
        ("framwork=megatron", "`framework`"),
        ("exp_nam=z", "`exp_name`"),
        ("overrides.lr=3", "`lr`"),
        ("lrr=1", "`lr`"),
        ("modules.pre_trainer.lr=1", "`overrides.lr`"),
    ],
)
def test_what_was_meant_is_told(word: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped word is answered with the key of experiment, module or back end that is nearest."""
    assert main(["run", EXAMPLE, word, "--dry-run"]) == 2
    assert meant in capsys.readouterr().err


@pytest.mark.parametrize("strict", [True, False])
def test_a_version_that_is_not_used_is_told(strict: bool, capsys: Any) -> None:
    """A plan is made for the installed library; another `backend_version` is a warning, and an error under --strict."""
    words = ["run", EXAMPLE, "backend_version=0.18.0", "mock_data=true", "train_data_path=null", "--dry-run"]
    assert main([*words, *["--strict"] * strict]) == (2 if strict else 0)
    assert "`backend_version` is 0.18.0, and 0.19.2 is installed here" in capsys.readouterr().err
