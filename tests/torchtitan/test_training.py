"""The trainer, in real ranks on gloo."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.experiment import Value
from primus_core.log.metrics import NAMES
from tests.torchtitan.ranks import Ranks

CORE_COLUMNS = {"time", "run_id", "rank"}


def test_a_llama_learns_on_two_ranks_and_every_rank_reports_every_iteration(titan_ranks: Ranks, tmp_path: Path) -> None:
    """FSDP gives one process's losses, as full rows of metrics in each rank, and ends cleanly."""
    alone = titan_ranks.run(tmp_path / "alone", world=1).check()
    outcome = titan_ranks.run(tmp_path / "both").check()
    for rank in (0, 1):
        rows = outcome.rows(rank)
        assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5, 6]
        assert {frozenset(row) - {"kind"} for row in rows} == {frozenset(NAMES) - CORE_COLUMNS}
        assert outcome.losses(rank) == pytest.approx(alone.losses(), rel=2e-6)
        assert outcome.result(rank) == {"iteration": 6, "loss": rows[-1]["loss"], "checkpoint": None}
    assert alone.losses()[-1] < alone.losses()[0] - 0.5
    assert [line["name"] for line in outcome.of("phase")] == ["import", "data", "init", "train", "done"]
    assert "destroy_process_group" not in outcome.texts[0]


def test_metrics_tell_of_the_very_iteration(titan_ranks: Ranks, tmp_path: Path) -> None:
    """The learning rate is Megatron's for the step, tokens are counted over all ranks, speeds fit the times."""
    rows = titan_ranks.run(tmp_path, {"log_interval": 3, "lr_warmup_iters": 2, "global_batch_size": 4}).check().rows()
    assert [row["lr"] for row in rows[:3]] == pytest.approx([0.0, 0.005, 0.01])
    assert [row["tokens"] for row in rows] == [128 * n for n in range(1, 7)]
    assert all(row["tokens_per_second"] == pytest.approx(128 / row["step_seconds"]) for row in rows)
    assert len({row["loss"] for row in rows}) == 6
    assert all(row["memory_bytes"] > 50e6 and row["tflops"] > 0 and row["mfu"] is None for row in rows)


def test_what_torchtitan_refuses_ends_the_run_before_training(titan_ranks: Ranks, tmp_path: Path) -> None:
    """The library's own check of a configuration is told in its words, as an error of the configuration."""
    outcome = titan_ranks.run(tmp_path, {"activation_checkpoint.kind": "memory_budget"}, world=1)
    assert outcome.error()["type"] == "ConfigError"
    assert "requires the model to be compiled" in outcome.error()["why"]
    assert not outcome.rows()


def test_a_pipeline_shows_the_loss_of_its_last_stage(titan_ranks: Ranks, tmp_path: Path) -> None:
    """The first stage has no loss, rather than TorchTitan's -1; the last has the real one."""
    outcome = titan_ranks.run(tmp_path, {"pipeline_model_parallel_size": 2, "train_iters": 3}).check()
    assert outcome.losses(0) == [None, None, None]
    assert all(4.5 < loss < 6 for loss in outcome.losses(1))


def test_evaluation_happens_where_it_was_asked_for(titan_ranks: Ranks, tmp_path: Path) -> None:
    """After every interval and at the end, then on test data too, not after the first; each tells its loss."""
    params: dict[str, Value] = {"eval_iters": 1, "eval_interval": 2, "train_iters": 3}
    outcome = titan_ranks.run(tmp_path, params, world=1).check()
    told = [line["text"].partition(" at ")[2] for line in outcome.of("notice")]
    assert told == ["iteration 2", "iteration 3 on validation set", "iteration 3 on test set"]


def test_nothing_is_loaded_that_was_not_asked_for(titan_ranks: Ranks, tmp_path: Path) -> None:
    """A second run in the same folder starts anew, unless it is to continue."""
    params: dict[str, Value] = {"save_interval": 2, "train_iters": 2}
    first = titan_ranks.run(tmp_path, params, world=1).check()
    assert Path(first.result()["checkpoint"]).is_dir()
    again = titan_ranks.run(tmp_path, params, world=1).check()
    assert again.rows()[2]["loss"] == first.rows()[0]["loss"]
