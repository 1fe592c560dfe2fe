"""Overrides as users write them, in every command that plans a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from primus_core.cli.main import main

EXPERIMENT = """\
work_group: team
user_name: me
exp_name: exp
workspace: ./out
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: llama_tiny.yaml
    overrides:
      accelerator: cpu
      mock_data: ${MOCK:1}
      train_iters: 10
      lr: 1e-3
      micro_batch_size: 2
      global_batch_size: 4
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MOCK", raising=False)
    (tmp_path / "exp.yaml").write_text(EXPERIMENT)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "exp.yaml", "train_iters=7", "lr=1e-5", "--output", "p.json"],
        ["plan", "--train-iters", "7", "exp.yaml", "--output", "p.json", "--lr=1e-5"],
        ["plan", "--output=p.json", "exp.yaml", "--modules.pre_trainer.overrides.train_iters=7", "--lr", "1e-5"],
        ["direct", "--", "plan", "exp.yaml", "--train_iters", "7", "--output", "p.json", "lr=${LR:1e-5}"],
    ],
)
def test_every_spelling_plans_the_same(folder: Path, words: list[str]) -> None:
    """A plan holds the values, typed by the parameters."""
    assert main(words) == 0
    native = json.loads((folder / "p.json").read_text())["translation"]["native"]
    assert (native["train_iters"], native["lr"], native["mock_data"]) == (7, 1e-5, True)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "exp.yaml", "--dry-run"],
        ["plan", "exp.yaml"],
        ["patches", "exp.yaml"],
        ["train", "pretrain", "--config", "exp.yaml"],
    ],
)
def test_a_mistyped_option_is_answered_with_the_option(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """``--nprocs`` is no parameter: the error names ``--nproc``, and nothing starts."""
    assert main([*words, "--nprocs", "2"]) == 2
    told = capsys.readouterr().err
    assert "error: unknown parameter `nprocs`" in told
    assert "try: did you mean --nproc?" in told


def test_validate_names_the_option_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Where errors are told by file, a mistyped option is answered in the same way."""
    assert main(["config", "validate", "exp.yaml", "--nprocs", "2"]) == 2
    assert "try: did you mean --nproc?" in capsys.readouterr().out


def test_a_dry_run_shows_commands_that_do_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Overrides in any spelling are those of the command that a dry run prints."""
    assert main(["train", "pretrain", "--config", "exp.yaml", "--train-iters", "7", "--dry-run"]) == 0
    assert "primus plan exp.yaml train_iters=7 --launcher" in capsys.readouterr().out


def test_values_that_are_nothing_reach_the_library(folder: Path) -> None:
    """Zero, false and the empty text are values; null takes a switch back to the library's default."""
    words = ["weight_decay=0", "add_bias_linear=false", 'wandb_project=""', "async_save=null", "--output", "p.json"]
    assert main(["plan", "exp.yaml", *words]) == 0
    native = json.loads((folder / "p.json").read_text())["translation"]["native"]
    assert (native["weight_decay"], native["add_bias_linear"], native["wandb_project"]) == (0.0, False, "")
    assert "async_save" not in native
