"""Operations that a model needs do not depend on how it is divided."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import evolve

from primus_backend_megatron import host
from primus_core.experiment import Value
from primus_core.plan import RunPlan
from primus_core.projection.flops import Flops, flops_of
from tests.megatron.experiments import plan_of
from tests.megatron.ranks import Ranks
from tests.megatron.truth.layouts import plans_of
from tests.megatron.truth.live_cases import DENSE, LATENT, MIXTURE, NEXT
from tests.megatron.truth.models import SMALL, presets
from tests.truth.named import PEAKS

MODELS = {**SMALL, **dict(presets())}
CHOSEN = (*SMALL, "llama3.1_8B", "qwen2.5_7B", "mixtral_8x7B_v0.1", "deepseek_v3", "qwen3_30B_A3B")
"""Dense, with fewer groups of queries than ranks, with experts, with latent attention, with both."""


def flops(plan: RunPlan) -> Flops:
    """Of a plan's model."""
    shape = host.model_shape(plan)
    assert shape is not None
    return flops_of(shape)


def of(**params: Value) -> Flops:
    """Of a small model on as many ranks as it is divided by, with the kernels of a GPU."""
    sizes = (params.get(f"{name}_model_parallel_size", 1) for name in ("tensor", "expert"))
    return flops(
        plan_of({**DENSE, **params}, ranks=max(size for size in sizes if isinstance(size, int)), accelerator="cuda")
    )


@pytest.mark.parametrize("name", CHOSEN)
def test_model_operations_are_the_same_in_every_layout(name: str) -> None:
    """Experts of other ranks, shared groups of queries and rows of padding change nothing; hardware runs no less."""
    found = {layout.name: flops(plan) for layout, plan in plans_of(MODELS[name])}
    assert len(found) > 5
    needed = next(iter(found.values())).model
    assert {layout: told.model for layout, told in found.items()} == dict.fromkeys(found, pytest.approx(needed))
    assert all(told.hardware >= told.model for told in found.values())


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_experts_of_more_ranks_compute_no_more(ranks: int) -> None:
    """Each rank's experts get fewer tokens of its own, and as many more of the others."""
    assert of(**MIXTURE, expert_model_parallel_size=ranks) == evolve(of(**MIXTURE), ranks=ranks)


def test_narrow_products_that_each_rank_repeats_are_hardware_operations() -> None:
    """Transformer Engine has these weights whole on each rank; with sequence parallelism ranks divide the tokens."""
    alone, divided = of(**LATENT), of(**LATENT, tensor_model_parallel_size=2)
    narrow = 6 * 512 * (192 + 64 + 32) * 2
    assert divided.model == alone.model
    assert divided.hardware - alone.hardware == pytest.approx(narrow)
    shared = of(**LATENT, tensor_model_parallel_size=2, sequence_parallel=True)
    assert shared.hardware == pytest.approx(alone.hardware)


def test_padding_of_the_vocabulary_is_a_hardware_operation() -> None:
    """1,000 tokens padded to a multiple of 2 x 128: 24 rows of the output layer, and of that of each further token."""
    params: dict[str, Value] = {
        "vocab_size": 1000,
        "make_vocab_size_divisible_by": 128,
        "tensor_model_parallel_size": 2,
    }
    plain, padded = of(**{**params, "make_vocab_size_divisible_by": 1}), of(**params)
    assert padded.model == plain.model
    assert padded.hardware - plain.hardware == pytest.approx(6 * 512 * 24)
    deeper, plainer = of(**params, **NEXT), of(**{**params, **NEXT, "make_vocab_size_divisible_by": 1})
    assert deeper.hardware - plainer.hardware == pytest.approx(2 * 6 * 512 * 24)


@pytest.mark.parametrize(("precision", "reduced"), [("bf16", True), ("fp32", False)])
def test_utilization_is_what_the_model_needs_over_the_peak(
    precision: str, reduced: bool, ranks: Ranks, tmp_path: Path
) -> None:
    """Of a device with a known peak: operations of a token, times tokens, by time, ranks and peak; on both ranks."""
    params = {**DENSE, "bf16": reduced, "num_layers": 1, "seq_length": 64, "train_iters": 2}
    plan = plan_of({**params, "max_position_embeddings": 64}, ranks=2, workspace=str(tmp_path))
    outcome = ranks.start(plan, tmp_path, entry="tests.truth.named:megatron").check()
    needed = flops(plan).model
    for row in (*outcome.rows(0), *outcome.rows(1)):
        rate = needed * row["tokens_per_second"] / 2
        assert row["tflops"] == pytest.approx(rate / 1e12)
        assert row["mfu"] == pytest.approx(rate / PEAKS[precision])
    assert len(outcome.rows(0)) == len(outcome.rows(1)) == 2


@pytest.mark.parametrize("model", [{}, LATENT])
def test_how_attention_is_computed_changes_nothing_that_is_needed(model: Mapping[str, Value]) -> None:
    """In one kernel, which computes its scores again, or step by step."""
    fused, stepwise = of(**model), of(**model, attention_backend="unfused")
    assert stepwise.model == fused.model < fused.hardware
    assert stepwise.hardware <= fused.hardware
