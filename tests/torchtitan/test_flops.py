"""Operations that a model needs do not depend on how it is divided."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.experiment import Value
from primus_core.plan import RunPlan
from primus_core.projection.flops import Flops, flops_of
from tests.torchtitan.experiments import MOCK, plan_of
from tests.torchtitan.families import DEEPSEEK, LATENT, MIXTURE
from tests.torchtitan.ranks import Ranks
from tests.torchtitan.truth.comparing import shape_of
from tests.torchtitan.truth.layouts import EP, TP, plans_of
from tests.torchtitan.truth.models import SMALL, presets
from tests.truth.named import PEAKS

MODELS = {**SMALL, **dict(presets())}
CHOSEN = (*SMALL, "llama3.1_8B", "qwen2.5_7B", "qwen3_30B_A3B", "deepseek_v3_671b", "deepseek_v2_lite")
"""Dense, with experts, with latent attention, with both."""


def flops(plan: RunPlan) -> Flops:
    """Of a plan's model."""
    return flops_of(shape_of(plan))


def of(*models: dict[str, Value], ranks: int = 1, **params: Value) -> Flops:
    """Of a small model."""
    every: dict[str, Value] = {**MOCK, "moe_aux_loss_coeff": 0.0}
    for model in models:
        every |= model
    return flops(plan_of({**every, "moe_aux_loss_coeff": 0.0, **params}, ranks=ranks))


@pytest.mark.parametrize("name", CHOSEN)
def test_model_operations_are_the_same_in_every_layout(name: str) -> None:
    """Products that each rank makes whole, uneven shares and rows of padding change nothing; hardware runs no less."""
    found = {layout.name: flops(plan) for layout, plan in plans_of(MODELS[name])}
    assert len(found) > 5
    needed = next(iter(found.values())).model
    assert {layout: told.model for layout, told in found.items()} == dict.fromkeys(found, pytest.approx(needed))
    assert all(told.hardware >= told.model for told in found.values())


def test_narrow_products_that_each_rank_repeats_are_hardware_operations() -> None:
    """Of latent attention in two layers: what queries, and what keys and values are made of."""
    dense = {**LATENT}
    alone, divided = of(dense), of(dense, ranks=2, **{TP: 2})
    assert divided.model == alone.model
    assert divided.hardware - alone.hardware == pytest.approx(2 * 6 * 64 * (32 + 24 + 8))


def test_the_choice_of_experts_is_repeated_where_ranks_do_not_divide_the_tokens() -> None:
    """Forward, of four experts in two layers; where ranks share out experts they share out tokens, too."""
    alone, divided = of(MIXTURE), of(MIXTURE, ranks=2, **{TP: 2})
    assert divided.model == alone.model
    assert divided.hardware - alone.hardware == pytest.approx(2 * 2 * 64 * 4)
    assert of(MIXTURE, ranks=2, **{TP: 2, EP: 2}).hardware == pytest.approx(alone.hardware)


def test_padding_of_the_vocabulary_is_a_hardware_operation() -> None:
    """250 tokens padded to a multiple of 128."""
    found, plain = of(), of(make_vocab_size_divisible_by=1)
    assert found.model == plain.model
    assert found.hardware - plain.hardware == pytest.approx(6 * 64 * 6)


def test_experts_of_more_ranks_compute_no_more() -> None:
    """Shared ones and those that are chosen."""
    assert of(DEEPSEEK, ranks=4, **{EP: 4}).hardware == of(DEEPSEEK).hardware


@pytest.mark.parametrize(("precision", "reduced"), [("bf16", True), ("fp32", False)])
def test_utilization_is_what_the_model_needs_over_the_peak(
    precision: str, reduced: bool, titan_ranks: Ranks, tmp_path: Path
) -> None:
    """Of a device with a known peak: operations of a token, times tokens, by time, ranks and peak; on both ranks."""
    plan = plan_of({**MOCK, "bf16": reduced, "train_iters": 2}, ranks=2, workspace=str(tmp_path))
    outcome = titan_ranks.start(plan, tmp_path, entry="tests.truth.named:torchtitan").check()
    needed = flops(plan).model
    for row in (*outcome.rows(0), *outcome.rows(1)):
        rate = needed * row["tokens_per_second"] / 2
        assert row["tflops"] == pytest.approx(rate / 1e12)
        assert row["mfu"] == pytest.approx(rate / PEAKS[precision])
    assert len(outcome.rows(0)) == len(outcome.rows(1)) == 2
