"""What projection says a training step needs is what Megatron's own step needs, tensor by tensor.

`make accuracy` compares all cases; here are some of each kind.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.megatron.ranks import Ranks
from tests.megatron.truth.live_accuracy import measured
from tests.megatron.truth.live_cases import CHOSEN, activations, drawn, problem

_FAST = ("tensor and sequence parallel", "latent attention, fused", "first of two stages")
_SLOW = ("dense", "experts", "interleaved, first of two", "feed-forward part recomputed")


def check(ranks: Ranks, folder: Path, names: tuple[str, ...]) -> None:
    """No case is beyond what is allowed."""
    cases = [case for case in CHOSEN if case.name in names]
    assert len(cases) == len(names)
    found = measured(ranks, folder, cases, once=True)
    told = [
        f"{case.name}: {wrong}"
        for case, one in zip(cases, found, strict=True)
        if (wrong := problem(activations(case.projected(), once=True), one["peak"] - one["static"]))
    ]
    assert told == []


def test_some_steps(ranks: Ranks, tmp_path: Path) -> None:
    """A step's tensors are projected within 2 % above and 1 % below."""
    check(ranks, tmp_path, _FAST)


@pytest.mark.slow
def test_more_steps(ranks: Ranks, tmp_path: Path) -> None:
    """The same for an interleaved pipeline, experts, and a recomputed part."""
    check(ranks, tmp_path, _SLOW)


def test_the_cases() -> None:
    """Twenty-two are chosen, ten are drawn, and all can be projected."""
    cases = (*CHOSEN, *drawn())
    assert len(CHOSEN) == 22
    assert len(cases) == 32
    assert all(activations(case.projected()) > 0 for case in cases)


@pytest.mark.parametrize(("projected", "told"), [(1_030, True), (985, True), (1_015, False), (995, False)])
def test_what_is_allowed(projected: int, told: bool) -> None:
    """Two per cent above is allowed, one below."""
    assert bool(problem(projected, 1_000)) is told
