"""Mistakes in experiments for TorchTitan: one screen before training, the right exit code, nothing written."""

from __future__ import annotations

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
    framework: torchtitan
    config: pre_trainer.yaml
    model: llama_tiny.yaml
    overrides:
      accelerator: cpu
      train_data_path: text.txt
      tokenizer_type: ByteLevelTokenizer
      train_iters: 10
      micro_batch_size: 2
"""

Case = tuple[tuple[str, ...], list[str]]

CASES: dict[str, Case] = {
    "a flavor that does not exist": (
        ("model: {name: llama3, flavor: 80B}",),
        ["`model.flavor` is '80B'", "exp.yaml:16", "known: 1B, 3B, 8B, 70B, 405B", "did you mean 8B?"],
    ),
    "a key that does not exist": (("parallelism.tensor_paralel_degree: 2",), ["exp.yaml:16", "tensor_parallel_degree"]),
    "a former key that does not exist": (("profiling.profile_frq: 2",), ["exp.yaml:16", "`profiling.profile_freq`"]),
    "a wrong type": (("training.seq_len: long",), ["`training.seq_len` takes a whole number", "exp.yaml:16"]),
    "two names, two values": (
        ("seq_length: 64", "training.seq_len: 128"),
        ["`seq_length` is 64 and `training.seq_len` is 128", "exp.yaml:16", "exp.yaml:17", "the portable name"],
    ),
    "a length that context parallelism does not divide": (
        ("seq_length: 130", "context_parallel_size: 2"),
        ["130", "context", "exp.yaml:16", "exp.yaml:17"],
    ),
    "a tokenizer that is missing": (
        ("tokenizer_type: HuggingFaceTokenizer", "tokenizer_model: ./no-such-tokenizer"),
        ["no-such-tokenizer", "exp.yaml:16"],
    ),
    "a tokenizer larger than the vocabulary": (("vocab_size: 100",), ["vocab_size", "100", "exp.yaml:16"]),
    "a tokenizer larger than the vocabulary by its native name": (
        ("model.vocab_size: 100",),
        ["vocab_size", "100", "exp.yaml:16"],
    ),
    "a size that cannot be": (("training.steps: 0",), ["`training.steps` is 0", "exp.yaml:16"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_one_screen(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong, where it stands, and what to do; exit code 2, and no file is written."""
    lines, fragments = CASES[case]
    kept = [line for line in EXPERIMENT.splitlines() if not _set_again(line, lines)]
    added = [f"      {line}" for line in lines]
    (tmp_path / "exp.yaml").write_text("\n".join([*kept, *added]) + "\n")
    (tmp_path / "text.txt").write_text("Some words to train on.\n" * 50)
    monkeypatch.chdir(tmp_path)
    ranks = "2" if "context" in case else "1"
    assert main(["run", "exp.yaml", "--nproc", ranks]) == 2
    told = capsys.readouterr().err
    assert [fragment for fragment in fragments if fragment not in told] == [], told
    assert len(told.splitlines()) < 25
    assert not (tmp_path / "out").exists()


def _set_again(line: str, lines: tuple[str, ...]) -> bool:
    """Whether the case sets what a parameter's line of the experiment sets."""
    names = {other.partition(":")[0] for other in lines}
    return line.startswith(" " * 6) and line.strip().partition(":")[0] in names
