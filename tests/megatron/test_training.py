"""The trainer, in real ranks on gloo."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from primus_core.experiment import Value
from tests.megatron.ranks import Ranks
from tests.megatron.tokens import write_tokens

COLUMNS = {
    "time",
    "run_id",
    "rank",
    "iteration",
    "train_iters",
    "loss",
    "lr",
    "grad_norm",
    "tokens_per_second",
    "tflops",
    "mfu",
    "step_seconds",
    "memory_bytes",
    "tokens",
}
LLAMA_LOSSES = [5.556173, 5.312659, 4.89283, 4.870549, 4.787449, 4.651742]
"""Of one process, which data parallelism must reproduce."""


def test_a_llama_learns_on_two_ranks_and_every_rank_reports_every_iteration(ranks: Ranks, tmp_path: Path) -> None:
    """Data parallel training gives one process's losses, as full rows of metrics in each rank, and ends cleanly."""
    outcome = ranks.run(tmp_path).check()
    for rank in (0, 1):
        rows = outcome.rows(rank)
        assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5, 6]
        assert {frozenset(row) - {"kind"} for row in rows} == {frozenset(COLUMNS)}
        assert outcome.losses(rank) == pytest.approx(LLAMA_LOSSES, abs=2e-6)
        assert outcome.result(rank) == {"iteration": 6, "loss": rows[-1]["loss"], "checkpoint": None}
    assert [line["name"] for line in outcome.of("phase")] == ["import", "init", "data", "train", "done"]
    assert "destroy_process_group" not in outcome.texts[0]
    assert "CPU RNG state changed" not in outcome.texts[0]


def test_metrics_tell_of_the_very_iteration(ranks: Ranks, tmp_path: Path) -> None:
    """The learning rate is the one that the step used, tokens are counted over all ranks, speeds fit the times.

    Operations are of the plan's model, which a plan without one does not have (tests/e2e has one with).
    """
    rows = ranks.run(tmp_path, {"log_interval": 3, "lr_warmup_iters": 2, "global_batch_size": 4}).check().rows()
    assert [row["lr"] for row in rows[:3]] == pytest.approx([0.0, 0.005, 0.01])
    assert [row["tokens"] for row in rows] == [128 * n for n in range(1, 7)]
    assert all(row["tokens_per_second"] == pytest.approx(128 / row["step_seconds"]) for row in rows)
    assert len({row["loss"] for row in rows}) == 6
    assert all(row["memory_bytes"] > 50e6 and row["tflops"] is None and row["mfu"] is None for row in rows)


def test_context_parallelism_honours_a_mask(ranks: Ranks, tmp_path: Path) -> None:
    """Sequences divided over two ranks give the losses of whole ones, with a mask that ends at documents."""
    masked: dict[str, Value] = {"reset_attention_mask": True, "reset_position_ids": True, "train_iters": 3}
    whole = ranks.run(tmp_path / "whole", masked).check().losses()
    divided = ranks.run(tmp_path / "divided", {**masked, "context_parallel_size": 2}).check().losses()
    assert divided == pytest.approx(whole, abs=2e-6)
    assert whole[1:] != pytest.approx(LLAMA_LOSSES[1:3], abs=1e-4)


def test_masked_tokens_do_not_count(ranks: Ranks, tmp_path: Path) -> None:
    """The loss is the mean over the unmasked tokens of the global batch, however Megatron divides the gradients."""
    data = _prepared(tmp_path, [[7] * length + [249, 249, 249] for length in range(1, 40)])
    rows = {
        name: ranks.run(tmp_path / name, {"mock_data": False, "train_iters": 1, **native}, prepared=data)
        .check()
        .rows()[0]
        for name, native in _MASKS.items()
    }
    assert rows["masked"]["loss"] == rows["per token"]["loss"] != rows["whole"]["loss"]
    assert rows["masked"]["grad_norm"] != pytest.approx(rows["per token"]["grad_norm"], rel=1e-3)


_MASKS: dict[str, dict[str, Value]] = {
    "whole": {},
    "masked": {"eod_mask_loss": True},
    "per token": {"eod_mask_loss": True, "calculate_per_token_loss": True},
}


def test_token_files_are_read_by_weight_and_split(ranks: Ranks, tmp_path: Path) -> None:
    """Several files train for more than one epoch, each by its weight or size, and the valid split is evaluated."""
    data = _prepared(tmp_path, [[3, 4] * 20 + [249]] * 40, [[5, 6] * 20 + [249]] * 40)
    native: dict[str, Value] = {"mock_data": False, "vocab_size": None, "split": "90,10,0", "train_iters": 12}
    outcome = ranks.run(tmp_path / "run", {**native, "eval_iters": 1, "eval_interval": 4}, prepared=data).check()
    assert outcome.losses()[-1] < 1.5
    assert outcome.texts[1].count("validation loss at iteration") == 4
    assert (tmp_path / "run/cache/megatron-indices").is_dir()


def test_a_split_without_documents_is_told_and_not_searched_for_ever(ranks: Ranks, tmp_path: Path) -> None:
    """Two documents leave nothing to evaluate on: one warning, and training goes on."""
    data = _prepared(tmp_path, [[3, 4] * 40 + [249]] * 2)
    native: dict[str, Value] = {"mock_data": False, "train_iters": 2, "eval_iters": 1, "eval_interval": 1}
    outcome = ranks.run(tmp_path / "run", native, prepared=data).check()
    warnings = [line["event"] for line in outcome.of("record") if line["level"] == "warning"]
    assert [text.split(",")[0] for text in warnings] == [
        "no evaluation on the valid split",
        "no evaluation on the test split",
    ]


def test_every_evaluation_tells_its_loss(ranks: Ranks, tmp_path: Path) -> None:
    """Rank 0, which has no loss under pipeline parallelism, says the one that Megatron prints in the last rank."""
    native: dict[str, Value] = {"pipeline_model_parallel_size": 2, "split": "80,10,10", "train_iters": 4}
    outcome = ranks.run(tmp_path, {**native, "eval_interval": 2, "eval_iters": 2}).check()
    told = [tuple(line["text"].split(" at iteration ")) for line in outcome.of("notice")]
    printed = re.findall(r"validation loss at iteration (.*?) \| lm loss value: (\S+)", outcome.texts[1])
    assert told == [(f"loss {float(loss):#.4g}", when) for when, loss in printed]
    assert [when for when, _ in printed] == ["2", "4", "4 on validation set", "4 on test set"]
    assert len({loss for _, loss in printed}) == 4
    assert {line["topic"] for line in outcome.of("notice")} == {"validation"}
    assert outcome.of("notice", 1) == outcome.of("notice")


@pytest.mark.parametrize(
    ("native", "message"),
    [
        ({"no_such_parameter": 1}, "no parameter of the installed Megatron"),
        ({"num_attention_heads": 5}, "Megatron refuses this configuration"),
        ({"attention_backend": "guesswork"}, "attention_backend: 'guesswork' is not accepted"),
        ({"vocab_size": None}, "mock_data needs a vocabulary size"),
        ({"async_save": True, "use_persistent_ckpt_worker": True}, "async_save does not work on a CPU"),
    ],
)
def test_what_megatron_cannot_honour_ends_the_run_before_training(
    ranks: Ranks, tmp_path: Path, native: dict[str, Value], message: str
) -> None:
    """A native value that is unknown or illegal is named, with status and remedy."""
    outcome = ranks.run(tmp_path, native, world=1)
    assert outcome.codes == (1,)
    assert outcome.error()["type"] == "ConfigError"
    assert message in outcome.error()["what"]
    assert not outcome.rows()


def test_a_parameter_that_needs_document_ends_is_refused_where_they_are_unknown(ranks: Ranks, tmp_path: Path) -> None:
    """Without an end-of-document token its mask cannot be made: the run stops and names the parameter."""
    data = _prepared(tmp_path, [[3, 4] * 40 + [249]] * 2)
    data["data"]["tokenizer"]["eod"] = None
    outcome = ranks.run(tmp_path / "run", {"mock_data": False, "eod_mask_loss": True}, world=1, prepared=data)
    assert outcome.error()["where"] == "eod_mask_loss"


def test_megatrons_graceful_end_is_success(ranks: Ranks, tmp_path: Path) -> None:
    """`exit_interval` ends training early by sys.exit(0): the rank returns the last iteration's result."""
    outcome = ranks.run(tmp_path, {"exit_interval": 2}, world=1).check()
    assert outcome.result()["iteration"] == 2


def _prepared(folder: Path, *files: list[list[int]]) -> dict[str, Any]:
    """The result of a data preparation whose training data are these files' documents."""
    made = [
        {
            "prefix": str(write_tokens(folder / f"tokens-{number}", documents)),
            "weight": None,
            "documents": len(documents),
            "tokens": sum(map(len, documents)),
        }
        for number, documents in enumerate(files)
    ]
    tokenizer = {"type": "byte", "model": None, "vocab_size": 250, "eod": 249}
    return {"data": {"train": made, "valid": [], "test": [], "tokenizer": tokenizer}}
