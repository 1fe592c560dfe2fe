"""What projection says a training step needs is what Megatron's own step needs, tensor by tensor.

Some cases of each kind, quickly: `test_memory_steps` has all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.megatron.ranks import Ranks
from tests.megatron.truth.live_accuracy import compare
from tests.megatron.truth.live_cases import CHOSEN, OPTIMIZERS, activations
from tests.megatron.truth.live_drawn import drawn
from tests.truth.allocator import compare as compare_real
from tests.truth.steps import named, problem, wrong

_FAST = (
    "tensor and sequence parallel",
    "latent attention, fused",
    "first of two stages",
    "norms recomputed, fused",
    "experts of a rank that get half as many tokens again, fused",
)


def test_some_steps(ranks: Ranks, tmp_path: Path) -> None:
    """A step's tensors are projected within 2 % above and 1 % below."""
    assert wrong(compare(ranks, tmp_path, named(CHOSEN, _FAST), once=True)) == []


def test_the_optimizer(ranks: Ranks, tmp_path: Path) -> None:
    """What lives while the optimizer works is projected as well: copies of gradients, and roots of moments."""
    assert wrong(compare(ranks, tmp_path, OPTIMIZERS)) == []


@pytest.mark.slow
def test_a_real_training(ranks: Ranks, tmp_path: Path) -> None:
    """What PyTorch's allocator gave at most to a training on a CPU is what was projected, all included."""
    (case,) = named(CHOSEN, ["dense"])
    assert wrong(compare_real(ranks, tmp_path, case)) == []


def test_the_cases() -> None:
    """At least forty are chosen, ten are drawn, and all can be projected."""
    chosen, few = CHOSEN, tuple(drawn())
    assert len(chosen) >= 40
    assert len(few) == 10
    assert all(activations(case.projected()) > 0 for case in (*chosen, *few))


@pytest.mark.parametrize(("projected", "told"), [(1_030, True), (985, True), (1_015, False), (995, False)])
def test_what_is_allowed(projected: int, told: bool) -> None:
    """Two per cent above is allowed, one below."""
    assert bool(problem(projected, 1_000)) is told
