"""FLOPs of toy models, against figures worked out by hand."""

from __future__ import annotations

import pytest
from attrs import evolve

from primus_core.projection.flops import Attention, flops_of, hardware_of
from primus_core.shape import Activation, Block, ModelShape, Operator, Recomputed, Run, Schedule, Sharding
from primus_core.testing.shapes import shape_problems

UP = Operator(name="up", component="mlp", reads=("input",), makes=(Activation(name="wide", bytes=4),), flops=100)
SCORES = Operator(
    name="scores",
    component="attention",
    reads=("wide",),
    keeps=("wide",),
    makes=(Activation(name="mixed", bytes=4),),
    flops=40,
    backward_flops=100,
    causal=True,
)
DOWN = Operator(
    name="down", component="mlp", reads=("mixed",), keeps=("mixed",), makes=(Activation(name="out", bytes=4),), flops=60
)
LAYER = Block(operators=(UP, SCORES, DOWN))


def shape(*runs: Run, layer: Block = LAYER) -> ModelShape:
    """Two stages of the same runs, on 2 x 2 x 2 ranks; ten tokens a micro batch."""
    return ModelShape(
        groups={"data": 2, "tensor": 2, "pipeline": 2},
        blocks={"layer": layer},
        stages=((runs,), (runs,)),
        sharding=Sharding(scheme="replicated", gradient="fp32", main=None, moments=()),
        schedule=Schedule(name="1f1b", micro_batches=2),
        tokens=10,
        samples=4,
        sequence=10,
    )


@pytest.mark.parametrize(("attention", "model", "hardware"), [("half", 540, 550), ("whole", 600, 620)])
def test_conventions(attention: Attention, model: int, hardware: int) -> None:
    """Attention counts half or whole; the model's operations leave out what its backward computes again."""
    found = flops_of(shape(Run(block="layer", count=3)), attention)
    assert found.model == pytest.approx(6 * model / 10)
    assert found.hardware == pytest.approx(6 * hardware / 10)
    assert found.model_per_iteration == pytest.approx(6 * model / 10 * 40)
    assert found.hardware_per_gpu == pytest.approx(6 * hardware / 10 * 40 / 8)


def test_recomputed_blocks_run_twice() -> None:
    """Groups of two of three layers: all run again; with early stop not the last product of each group."""
    told = shape(Run(block="layer", count=3, recompute=2))
    plain = flops_of(shape(Run(block="layer", count=3)), "whole").hardware
    assert flops_of(told, "whole").hardware == pytest.approx(plain + 2 * 3 * 200 / 10)
    early = evolve(told, recomputing="needed")
    assert flops_of(early, "whole").hardware == pytest.approx(plain + 2 * (3 * 200 - 2 * 60) / 10)
    assert flops_of(told).model == flops_of(shape(Run(block="layer", count=3))).model


def halves(layer: Block, *, recompute: int = 1) -> ModelShape:
    """Two stages of four layers, of four micro batches whose gradients of weights come apart."""
    told = shape(Run(block="layer", count=4, recompute=recompute), layer=layer)
    return evolve(told, schedule=Schedule(name="zero_bubble", micro_batches=4))


def test_recomputed_blocks_run_for_the_gradient_of_each_weight_that_comes_apart() -> None:
    """Of two weighted operators three times; but once on the first stage, where all gradients come together."""
    weighted = evolve(LAYER, operators=(evolve(UP, weights=("up",)), SCORES, evolve(DOWN, weights=("down", "bias"))))
    plain = hardware_of(halves(weighted, recompute=0), 0, "whole")
    assert hardware_of(halves(weighted, recompute=0), 1, "whole") == plain
    assert hardware_of(halves(weighted), 0, "whole") == pytest.approx(plain + 4 * 200)
    assert hardware_of(halves(weighted), 1, "whole") == pytest.approx(plain + 3 * 4 * 200)
    assert hardware_of(halves(weighted, recompute=2), 1, "whole") == pytest.approx(plain + 5 * 4 * 200)
    parts = evolve(weighted, recomputed=(Recomputed(first="scores", last="down"),))
    assert hardware_of(halves(parts, recompute=0), 1, "whole") == pytest.approx(plain + 2 * 4 * 100)


def test_recomputed_parts_run_again_but_for_what_they_save() -> None:
    """Scores alone; and all of the layer with the scores saved."""
    plain = flops_of(shape(Run(block="layer")), "whole").hardware
    alone = evolve(LAYER, recomputed=(Recomputed(first="scores", last="scores"),))
    assert flops_of(shape(Run(block="layer"), layer=alone), "whole").hardware == pytest.approx(plain + 2 * 40 / 10)
    saving = evolve(LAYER, recomputed=(Recomputed(first="up", last="down", saves=("mixed",)),))
    assert flops_of(shape(Run(block="layer"), layer=saving), "whole").hardware == pytest.approx(plain + 2 * 160 / 10)


def test_what_each_rank_repeats_runs_but_is_not_needed() -> None:
    """The first product on both tensor parallel ranks, and again where the layer is recomputed."""
    repeated = evolve(LAYER, operators=(evolve(UP, hardware_flops=200), SCORES, DOWN))
    plain, found = flops_of(shape(Run(block="layer"))), flops_of(shape(Run(block="layer"), layer=repeated))
    assert found.model == plain.model
    assert found.hardware == pytest.approx(plain.hardware + 2 * 300 / 10)
    twice = flops_of(shape(Run(block="layer", recompute=1), layer=repeated), "whole")
    assert twice.hardware == pytest.approx(flops_of(shape(Run(block="layer"), layer=repeated), "whole").hardware + 60)


def test_less_than_what_is_needed_is_a_mistake() -> None:
    """Of a back end's shape."""
    layer = evolve(LAYER, operators=(evolve(UP, hardware_flops=99), SCORES, DOWN))
    (problem,) = shape_problems(shape(Run(block="layer"), layer=layer))
    assert "less runs than the model needs" in problem
    assert not list(shape_problems(shape(Run(block="layer"))))
