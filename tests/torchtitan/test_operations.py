"""The operations that the back end tells are those that TorchTitan's own training step runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torchtitan.ranks import Ranks
from tests.torchtitan.truth.flops_accuracy import cases, compare
from tests.truth.flops import wrong
from tests.truth.steps import named

CASES = list(cases())
FAST = (
    "experts of two ranks, sequence parallel",
    "latent attention with experts, sequence parallel",
    "context parallel",
    "recomputed in part",
    "last of two stages, fused",
)
"""Every kind of layer, and of layout and recomputation the main ones."""


@pytest.mark.parametrize("name", FAST)
def test_products_are_those_that_pytorch_counts(name: str, titan_ranks: Ranks, tmp_path: Path) -> None:
    """Of one rank: forward, backward and again, repeated on each rank or not; of whole attention, as PyTorch counts."""
    assert not wrong(compare(titan_ranks, tmp_path, named(CASES, [name])))


@pytest.mark.slow
@pytest.mark.parametrize("name", [case.name for case in CASES if case.name not in FAST])
def test_products_are_those_that_pytorch_counts_in_every_case(name: str, titan_ranks: Ranks, tmp_path: Path) -> None:
    """All whose memory is compared, and more layouts."""
    assert not wrong(compare(titan_ranks, tmp_path, named(CASES, [name])))
