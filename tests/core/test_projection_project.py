"""Stages, margins and fits, worked out by hand."""

from __future__ import annotations

import pytest
from attrs import evolve

from primus_core.projection.fit import GIB, fit, learned_margin, margin_of
from primus_core.projection.project import project
from primus_core.shape import Activation, Block, ModelShape, Operator, Parameter, Run, Schedule, Sharding

WEIGHT = Parameter(name="weight", shape=(8, 10), dtype="bf16", axes=("tensor",))
LAYER = Block(
    parameters=(WEIGHT,),
    operators=(
        Operator(
            name="product",
            component="mlp",
            reads=("input",),
            makes=(Activation(name="out", bytes=100),),
            keeps=("input",),
            weights=("weight",),
        ),
    ),
)
SHAPE = ModelShape(
    groups={"pipeline": 4, "data": 2},
    blocks={"layer": LAYER},
    stages=tuple(((Run(block="layer", count=count),),) for count in (1, 2, 2, 3)),
    sharding=Sharding(scheme="replicated", gradient="fp32", main="fp32", moments=("fp32", "fp32")),
    schedule=Schedule(name="1f1b", micro_batches=8, boundary=100),
    tokens=10,
    samples=16,
    sequence=10,
)


def test_the_stage_with_most_layers_is_the_heaviest() -> None:
    """Of layers 1, 2, 2, 3 the last stage has most weights, and every layer is counted once in all."""
    found = project(SHAPE)
    assert [stage.parameters for stage in found.stages] == [80, 160, 160, 240]
    assert [dict(stage.blocks) for stage in found.stages][3] == {"layer": 3}
    assert found.parameters == 640
    weights = [stage.static.weights for stage in found.stages]
    assert weights == [160, 320, 320, 480]
    assert max(found.stages, key=lambda stage: stage.static.total).number == 3


def test_bytes_are_the_sum_of_what_is_told() -> None:
    """What a stage needs is what lives through the step and what comes and goes, each told once."""
    for stage in project(SHAPE).stages:
        static = stage.static
        lasting = static.weights + static.gradients + static.main + static.moments + static.buffers + static.padding
        assert stage.bytes == lasting + stage.activations
        assert stage.activations == sum(stage.parts.values()) == stage.peak.bytes > 0


def test_tensor_parallelism_divides_weights_and_optimizer_alike() -> None:
    """With two tensor ranks each has half of the weights, the gradients and the optimizer's state."""
    whole = project(SHAPE).heaviest.static
    half = project(evolve(SHAPE, groups={**SHAPE.groups, "tensor": 2})).heaviest.static
    assert (half.weights, half.gradients, half.main, half.moments) == tuple(
        size // 2 for size in (whole.weights, whole.gradients, whole.main, whole.moments)
    )


def test_a_model_that_tells_no_activations_says_so() -> None:
    """Operators that tell FLOPs alone are no activations, and nothing is said to fit because of them."""
    silent = evolve(LAYER, operators=(Operator(name="product", component="mlp", flops=5),))
    assert project(SHAPE).has_activations
    assert not project(evolve(SHAPE, blocks={"layer": silent})).has_activations


def test_margins_are_named_and_unverified_until_a_run_told_them() -> None:
    """A margin learned from a run takes the place of a rule of thumb, and is never below nothing."""
    stage = project(SHAPE).heaviest
    thumb = {one.name: one for one in margin_of(stage, 8)}
    assert not any(one.verified for one in thumb.values())
    assert "communication" not in {one.name for one in margin_of(stage, 1)}
    learned = learned_margin(3 * GIB, 2 * GIB, "run")
    assert (learned.bytes, learned.verified) == (GIB, True)
    assert learned_margin(GIB, 2 * GIB, "run").bytes == 0
    assert {one.name: one for one in margin_of(stage, 8, learned)}["workspaces"] is learned


@pytest.mark.parametrize(("spare", "fits"), [(0, True), (-1, False)])
def test_a_run_fits_up_to_the_last_byte(spare: int, fits: bool) -> None:
    """What is needed may be as much as the device has, and no byte more."""
    projection = project(SHAPE)
    margin = margin_of(projection.heaviest, 8)
    needed = fit(projection, margin).needed
    found = fit(projection, margin, "toy", needed + spare)
    assert (found.fits, found.spare) == (fits, spare)
    assert fit(projection, margin).fits is None
