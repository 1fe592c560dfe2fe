"""Live bytes of blocks and schedules, against figures worked out by hand."""

from __future__ import annotations

import pytest
from attrs import evolve

from primus_core.projection.iteration import peak
from primus_core.projection.order import steps
from primus_core.projection.setting import Setting
from primus_core.projection.tape import backward, forward
from primus_core.shape import (
    Activation,
    Block,
    ModelShape,
    Operator,
    Parameter,
    Recomputed,
    Run,
    Schedule,
    ScheduleName,
    Sharding,
)


def made(name: str, size: int, gradient: int | None = None) -> Activation:
    return Activation(name=name, bytes=size, gradient=gradient)


NORM = Operator(name="norm", component="norm", reads=("input",), makes=(made("normed", 10),), keeps=("input",))
UP = Operator(
    name="up", component="mlp", reads=("normed",), makes=(made("wide", 40),), keeps=("normed",), weights=("up.weight",)
)
ACT = Operator(name="act", component="mlp", reads=("wide",), makes=(made("acted", 40),), keeps=("wide",), scratch=7)
DOWN = Operator(
    name="down",
    component="mlp",
    reads=("acted",),
    makes=(made("narrow", 10),),
    keeps=("acted",),
    weights=("down.weight",),
)
ADD = Operator(
    name="add",
    component="mlp",
    reads=("input", "narrow"),
    makes=(made("output", 10),),
    passes=("input", "narrow"),
)
LAYER = Block(
    parameters=(
        Parameter(name="up.weight", shape=(2, 2), dtype="bf16"),
        Parameter(name="down.weight", shape=(3,), dtype="bf16"),
    ),
    operators=(NORM, UP, ACT, DOWN, ADD),
)
EMBED = Block(operators=(Operator(name="embed", component="embedding", makes=(made("hidden", 10),)),))
LOSS = Block(
    operators=(
        Operator(name="logits", component="head", reads=("input",), makes=(made("logits", 100),), keeps=("input",)),
        Operator(
            name="loss",
            component="loss",
            reads=("logits",),
            makes=(made("loss", 4, 0),),
            keeps=("logits",),
            scratch=50,
        ),
    )
)
WEIGHTS = (("up.weight", 8), ("down.weight", 6))
SETTING = Setting(source=10, gradient=10, weights=WEIGHTS)


def shape(schedule: ScheduleName = "none", micro_batches: int = 1, ranks: int = 1, layers: int = 3) -> ModelShape:
    """A model of a few layers a stage."""
    stages = []
    for rank in range(ranks):
        runs = [Run(block="embedding")] if rank == 0 else []
        runs.append(Run(block="layer", count=layers))
        runs += [Run(block="head")] if rank == ranks - 1 else []
        stages.append((tuple(runs),))
    return ModelShape(
        groups={},
        blocks={"embedding": EMBED, "layer": LAYER, "head": LOSS},
        stages=tuple(stages),
        sharding=Sharding(scheme="replicated", gradient="fp32", main=None, moments=()),
        schedule=Schedule(name=schedule, micro_batches=micro_batches, boundary=10),
        tokens=1,
        samples=1,
        sequence=1,
    )


def test_forward_keeps_what_operators_keep() -> None:
    """Input 10, normed 10, wide 40 and acted 40 stay; at the most the narrow output and the sum are there too."""
    ran = forward(LAYER, "layer", SETTING)
    assert ran.left == {"passed on": 10, "norm": 10, "mlp": 80}
    assert (ran.most.bytes, ran.most.at, ran.output) == (120, "layer: add, forward", 10)
    assert sum(ran.most.parts.values()) == 120


def test_forward_without_keeping_frees_after_the_last_reader() -> None:
    """At the activation: input 10, wide 40, acted 40, scratch 7."""
    ran = forward(LAYER, "layer", SETTING, keep=False)
    assert (ran.most.bytes, ran.most.at) == (97, "layer: act, forward")
    assert ran.left == {}


def test_backward_frees_as_it_goes() -> None:
    """At `act`: kept 100, of which acted is gone (60), the residual's gradient 10, gradients of acted and wide."""
    ran = backward(LAYER, "layer", SETTING, 10)
    assert ran.most.at == "layer: down, backward"
    assert ran.most.bytes == 100 + 10 + 40 + 6
    assert (ran.output, ran.left) == (10, {})


def test_a_second_gradient_is_allocated_and_added_to_the_first() -> None:
    """At the norm: its input 10, gradients of the residual, of normed, and of the input by the norm."""
    block = evolve(LAYER, operators=(NORM, evolve(ADD, reads=("input", "normed"), passes=("input", "normed"))))
    ran = backward(block, "layer", SETTING, 10)
    assert (ran.most.bytes, ran.most.at) == (30, "layer: norm, backward")


def test_a_shared_first_gradient_is_added_out_of_place() -> None:
    """Two readers of what an addition passes to two: the sum is a third storage."""
    fork = Operator(name="fork", component="x", reads=("a", "b"), makes=(made("out", 10),), passes=("a", "b"))
    first = Operator(name="first", component="x", reads=("input",), makes=(made("a", 10),))
    second = Operator(name="second", component="x", reads=("a",), makes=(made("b", 10),))
    inner = backward(Block(operators=(first, second, fork)), "x", Setting(gradient=10), 10)
    assert inner.most.bytes == 20
    third = Operator(name="third", component="x", reads=("a",), makes=(made("c", 1),))
    both = evolve(fork, reads=("a", "b", "c"), passes=("a", "b"))
    ran = backward(Block(operators=(first, second, third, both)), "x", Setting(gradient=10), 10)
    assert ran.most.bytes == 30
    assert ran.most.parts == {"gradients of activations": 30}


@pytest.mark.parametrize(("whole", "most"), [(True, 166), (False, 156)])
def test_a_part_is_made_again(whole: bool, most: int) -> None:
    """Input and normed stay (20); at `down` wide and acted are there again (80) and, held, the output (10);
    gradients of the residual (10), of acted (40) and of a weight (6)."""
    block = evolve(LAYER, recomputed=(Recomputed(first="up", last="down"),))
    assert forward(block, "layer", SETTING).left == {"passed on": 10, "norm": 10}
    ran = backward(block, "layer", evolve(SETTING, whole=whole), 10)
    assert ran.most.bytes == most
    assert ran.left == {}


def test_a_dropped_output_comes_back_before_its_reader() -> None:
    """`act` alone: acted is dropped in the forward pass, there again for `down`, and held until `act` has run."""
    block = evolve(LAYER, recomputed=(Recomputed(first="act", last="act", keeps_output=False),))
    assert forward(block, "layer", SETTING).left == {"passed on": 10, "norm": 10, "mlp": 40}
    ran = backward(block, "layer", SETTING, 10)
    assert ran.most.at == "layer: act, backward"
    assert ran.most.bytes == 10 + 10 + 40 + 40 + 10 + 40 + 40


def test_a_dropped_output_may_come_back_early() -> None:
    """`norm` before `down`: normed (10) is held until `down` has run forward, and is there again before its backward.

    By itself it would come back for `up`: input (10), wide and acted (80), gradients of the residual (10), of acted
    (40) and of a weight (6) are the most without it."""
    told = Recomputed(first="norm", last="norm", keeps_output=False)
    late, early = (evolve(LAYER, recomputed=(one,)) for one in (told, evolve(told, before="down")))
    assert forward(early, "layer", SETTING).left == forward(late, "layer", SETTING).left == {"passed on": 10, "mlp": 80}
    assert forward(late, "layer", SETTING).most.at == "layer: add, forward"
    assert forward(early, "layer", SETTING).most.at == "layer: down, forward"
    assert backward(late, "layer", SETTING, 10).most.bytes == 10 + 40 + 40 + 10 + 40 + 6
    assert backward(early, "layer", SETTING, 10).most.bytes == 10 + 10 + 40 + 40 + 10 + 40 + 6


def test_gradients_of_what_a_part_gives_are_held() -> None:
    """`up` and `act` run again: at `up`, which needs 100 more, the gradient of acted (40) waits beside input and normed
    (20), acted itself (40), gradients of the residual (10), of wide (40), of normed (10) and of a weight (8)."""
    operators = (NORM, evolve(UP, backward_scratch=100), ACT, DOWN, ADD)
    block = evolve(LAYER, operators=operators, recomputed=(Recomputed(first="up", last="act"),))
    ran = backward(block, "layer", SETTING, 10)
    assert ran.most.at == "layer: up, backward"
    assert ran.most.bytes == 100 + 40 + 10 + 10 + 40 + 10 + 40 + 10 + 8


def test_a_part_inside_another_is_made_a_third_time() -> None:
    """`up` to `down` run again and wide (40) is dropped once more: at `down` there are input and normed (20), acted
    (40), the output (10), gradients of the residual (10), of acted (40) and of a weight (6). Then `up` and `act` run
    again: at `act` wide is there too and a gradient of it (80), but no gradient of a weight."""
    inner, outer = Recomputed(first="up", last="act"), Recomputed(first="up", last="down")
    block = evolve(LAYER, recomputed=(inner, outer))
    assert forward(block, "layer", SETTING).left == {"passed on": 10, "norm": 10}
    ran = backward(block, "layer", SETTING, 10)
    assert ran.most.at == "layer: act, backward"
    assert ran.most.bytes == 20 + 40 + 10 + 10 + 40 + 80
    assert ran.left == {}


def test_saved_outputs_of_a_part_are_not_made_again() -> None:
    """Of up to down, wide is kept: in the backward pass acted alone is made again."""
    told = Recomputed(first="up", last="down", saves=("wide",))
    block = evolve(LAYER, recomputed=(told,))
    assert forward(block, "layer", SETTING).left == {"passed on": 10, "norm": 10, "mlp": 40}
    ran = backward(block, "layer", evolve(SETTING, whole=False), 10)
    assert ran.most.bytes == 10 + 10 + 40 + 40 + 10 + 40 + 6


def test_an_operator_that_names_an_unknown_activation_is_refused() -> None:
    """The name is in the message."""
    wrong = Block(operators=(Operator(name="norm", component="norm", reads=("nowhere",)),))
    with pytest.raises(ValueError, match="nowhere"):
        forward(wrong, "layer", SETTING)


def test_one_rank_keeps_all_layers_until_the_loss() -> None:
    """Three layers keep 100 each; then the head's input 10, logits 100 and their gradient 100."""
    found = peak(shape(), 0)
    assert (found.bytes, found.at) == (300 + 10 + 100 + 100, "head: loss, backward")
    assert sum(found.parts.values()) == found.bytes


@pytest.mark.parametrize(
    ("schedule", "rank", "bytes_", "others"),
    [
        ("1f1b", 0, 356 + 3 * 300, 3),
        ("1f1b", 1, 356 + 2 * 300, 2),
        ("1f1b", 2, 356 + 300, 1),
        ("1f1b", 3, 510, 0),
        ("gpipe", 0, 356 + 7 * 300, 7),
        ("gpipe", 3, 510 + 7 * 310 + 7 * 100, 7),
    ],
)
def test_micro_batches_in_flight(schedule: ScheduleName, rank: int, bytes_: int, others: int) -> None:
    """1F1B keeps those of the stages after it, GPipe all; 356 is what the last layer needs backward."""
    found = peak(shape(schedule, micro_batches=8, ranks=4), rank)
    assert found.bytes == bytes_
    assert sum(found.kept.values()) == others * (300 if rank < 3 else 410)


def test_groups_of_recomputed_blocks_keep_their_input() -> None:
    """Groups of two of four layers: inputs 10 of two groups; backward the second runs again and holds its output.

    Where its input stays (100 of 200, the other half is its gradient), the first needs as much more."""
    told = shape(layers=4)
    stages = (((Run(block="embedding"), Run(block="layer", count=4, recompute=2)),),)
    found = peak(evolve(told, stages=stages), 0)
    kept_again, gradients = 90 + 100, 40 + 6
    assert found.bytes == 10 + 10 + kept_again + 10 + gradients
    assert found.at == "layer: down, backward"
    blocks = {**told.blocks, "layer": evolve(told.blocks["layer"], remains=200)}
    left = peak(evolve(told, stages=stages, blocks=blocks), 0)
    assert left.bytes == found.bytes + 100


@pytest.mark.parametrize("name", ["1f1b", "gpipe", "interleaved_1f1b", "looped_bfs", "zero_bubble", "zbv", "dualpipev"])
def test_the_cost_does_not_grow_with_micro_batches(name: ScheduleName) -> None:
    """A thousand micro batches have as many distinct steps as a hundred and some."""
    chunks = 1 if name in ("1f1b", "gpipe") else 2
    few, many = (steps(Schedule(name=name, micro_batches=count), 1, 4, chunks) for count in (96, 960))
    assert len(few) == len(many)
    assert len(many) < 100
