"""What an optimizer's own step needs, worked out by hand."""

from __future__ import annotations

from typing import Literal

import pytest
from attrs import evolve

from primus_core.projection.iteration import WORKSPACE
from primus_core.projection.memory import INPUT
from primus_core.projection.optimizing import OPTIMIZER, peak
from primus_core.projection.project import project
from primus_core.projection.states import per_rank
from primus_core.shape import Block, ModelShape, Parameter, Run, Schedule, Scheme, Sharding

SIZES = ((4, 10), (7,), (6, 10), (5, 10))
LAYER = Block(
    parameters=tuple(Parameter(name=f"weight.{size}", shape=size, dtype="bf16") for size in SIZES),
)


def shape(optimizer: Literal["fused", "foreach", "for-loop"], scheme: Scheme = "replicated") -> ModelShape:
    """One layer of matrices of 40, 60 and 50 elements and a vector of 7."""
    return ModelShape(
        groups={},
        blocks={"layer": LAYER},
        stages=(((Run(block="layer"),),),),
        sharding=Sharding(scheme=scheme, gradient="bf16", main="fp32", moments=("fp32", "fp32"), optimizer=optimizer),
        schedule=Schedule(name="none", micro_batches=1),
        tokens=1,
        samples=1,
        sequence=1,
    )


def needed(of: ModelShape) -> int:
    """Bytes by the optimizer's name, without what is left of the passes."""
    return peak(of, 0, per_rank(of, 0), 0).parts.get(OPTIMIZER, 0)


@pytest.mark.parametrize(
    ("optimizer", "scheme", "elements"),
    [
        ("fused", "replicated", 0),
        ("foreach", "replicated", 150),
        ("foreach", "fully_sharded", 150),
        ("for-loop", "replicated", 40 + 2 * 60),
        ("for-loop", "fully_sharded", 60 + 2 * 50),
        ("for-loop", "distributed_optimizer", 50 + 2 * 60),
    ],
)
def test_roots_of_moments(optimizer: Literal["fused", "foreach", "for-loop"], scheme: Scheme, elements: int) -> None:
    """All matrices at once; or two of one and one of that before it, which is the next where buffers are reversed."""
    assert needed(shape(optimizer, scheme)) == 4 * elements


@pytest.mark.parametrize(("recompute", "groups"), [(0, 0), (1, 5), (2, 3)])
def test_what_recomputed_blocks_leave(recompute: int, groups: int) -> None:
    """Once for each group of five layers, until they run again."""
    plain = shape("fused")
    run = Run(block="layer", count=5, recompute=recompute)
    left = evolve(plain, blocks={"layer": evolve(LAYER, remains=20)}, stages=(((run,),),))
    assert peak(left, 0, per_rank(left, 0), 0).parts.get(INPUT, 0) == 20 * groups


def test_copies_of_shards_take_the_place_of_gradients() -> None:
    """150 elements for the roots of matrices; 157 gradients of two bytes are gone by then, and their copies there."""
    plain = shape("foreach", "fully_sharded")
    copying = evolve(plain, sharding=evolve(plain.sharding, main=None, copy="fp32", copies_gradients=True))
    assert per_rank(copying, 0).main == 4 * 157
    assert needed(copying) == 4 * 157 + 4 * 150 - 2 * 157


def test_gradients_that_are_copied_are_all_there() -> None:
    """157 elements in fp32 beside what arithmetic needs."""
    copying = evolve(shape("fused"), sharding=evolve(shape("fused").sharding, copies_gradients=True))
    assert needed(copying) == 4 * 157


def test_descent_without_moments_needs_a_gradient_with_its_weight() -> None:
    """One tensor of the largest."""
    plain = evolve(shape("for-loop"), sharding=evolve(shape("for-loop").sharding, moments=("fp32",)))
    assert needed(plain) == 4 * 60


def test_what_is_left_of_the_passes_lives_beside_it() -> None:
    """Workspaces, and tensors between stages that the library still names."""
    left = evolve(shape("foreach"), schedule=Schedule(name="none", micro_batches=1, remains=(200,), received=(100,)))
    found = peak(left, 0, per_rank(left, 0), 1_000)
    assert found.parts == {OPTIMIZER: 600, INPUT: 300, WORKSPACE: 1_000}
    assert found.bytes == 1_900


def test_the_most_is_that_of_the_optimizer_where_it_needs_more() -> None:
    """A model without activations needs most when its optimizer works, and says so."""
    (stage,) = project(shape("foreach")).stages
    assert stage.peak.at == OPTIMIZER
    assert stage.bytes == stage.static.total + 600
    assert stage.activations == sum(stage.parts.values()) == 600
