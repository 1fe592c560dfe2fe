"""What projection says a training step needs is what TorchTitan's own step needs, tensor by tensor.

Some cases, quickly: `test_memory_steps` has all of them.
"""

from __future__ import annotations

from pathlib import Path

from tests.torchtitan.ranks import Ranks
from tests.torchtitan.truth.live_accuracy import compare
from tests.torchtitan.truth.live_cases import CHOSEN, OPTIMIZERS, drawn
from tests.truth.allocator import compare as compare_real
from tests.truth.steps import named, wrong

_FAST = ("four shards, loss at once", "fused, experts")


def test_some_steps(titan_ranks: Ranks, tmp_path: Path) -> None:
    """A step's tensors are projected within 2 % above and 1 % below."""
    assert wrong(compare(titan_ranks, tmp_path, named(CHOSEN, _FAST))) == []


def test_the_optimizer(titan_ranks: Ranks, tmp_path: Path) -> None:
    """What lives while the optimizer works one tensor after the other is projected as well."""
    assert wrong(compare(titan_ranks, tmp_path, OPTIMIZERS)) == []


def test_a_real_training(titan_ranks: Ranks, tmp_path: Path) -> None:
    """What PyTorch's allocator gave at most to a training on a CPU is what was projected, all included."""
    (case,) = named(CHOSEN, ["dense"])
    assert wrong(compare_real(titan_ranks, tmp_path, case)) == []


def test_the_cases() -> None:
    """More than forty are chosen, ten are drawn, the same each time, and all can be projected."""
    first = list(drawn())
    assert len(CHOSEN) >= 40
    assert len(first) == 10
    assert [case.params for case in first] == [case.params for case in drawn()]
    assert all(case.projected().bytes > 0 for case in (*CHOSEN, *first))
