"""The operations that the back end tells are those that Megatron's own training step runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.projection.flops import flops_of
from primus_core.projection.routing import unbalanced
from tests.megatron.ranks import Ranks
from tests.megatron.truth.flops_accuracy import cases, compare
from tests.megatron.truth.live_cases import MIXTURE, Case
from tests.truth.flops import wrong
from tests.truth.steps import named

CASES = list(cases())
FAST = (
    "tensor, sequence and context parallel",
    "experts on two ranks, one shared, fused",
    "one more token predicted, last of two stages, sequence parallel, fused",
    "latent attention, narrow products on each rank, fused",
    "recomputed in twos",
)
"""Every kind of layer, and of layout and recomputation the main ones."""


@pytest.mark.parametrize("name", FAST)
def test_products_are_those_that_pytorch_counts(name: str, ranks: Ranks, tmp_path: Path) -> None:
    """Of one rank: forward, backward and again, repeated on each rank or not; of whole attention, as PyTorch counts."""
    assert not wrong(compare(ranks, tmp_path, named(CASES, [name])))


@pytest.mark.slow
@pytest.mark.parametrize("name", [case.name for case in CASES if case.name not in FAST])
def test_products_are_those_that_pytorch_counts_in_every_case(name: str, ranks: Ranks, tmp_path: Path) -> None:
    """All whose memory is compared, and more layouts."""
    assert not wrong(compare(ranks, tmp_path, named(CASES, [name])))


def test_tokens_that_experts_of_other_ranks_get_are_told_apart() -> None:
    """What experts of one rank get more, those of others get less: the model's operations are the same."""
    shape = Case(name="experts", params={**MIXTURE, "expert_model_parallel_size": 2}, ranks=2).shape()
    assert flops_of(unbalanced(shape, 1.5)) == flops_of(shape)


def test_grouped_experts_multiply_what_experts_one_by_one_do() -> None:
    """Whose operations are counted above."""
    shapes = [
        Case(name="experts", params={**MIXTURE, "moe_grouped_gemm": on}, fused=True).shape() for on in (True, False)
    ]
    assert flops_of(shapes[0]) == flops_of(shapes[1])


def test_a_case_that_is_projected_wrongly_is_told(ranks: Ranks, tmp_path: Path) -> None:
    """Experts of which each rank is taken to compute as many as all of them."""
    (row,) = compare(ranks, tmp_path, named(CASES, ["experts of four ranks"]))
    assert not wrong([row])
    assert wrong([{**row, "projected": row["projected"] * 1.006}]) == ["experts of four ranks: +0.600%"]
