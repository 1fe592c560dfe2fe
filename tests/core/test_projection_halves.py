"""Live bytes where gradients of activations and of weights are computed apart, against figures worked out by hand."""

from __future__ import annotations

import pytest
from attrs import evolve

from primus_core.projection.backward import run_backward
from primus_core.projection.chunk import Chunk, run_forward
from primus_core.projection.halves import run_weights
from primus_core.projection.iteration import given
from primus_core.projection.order import steps
from primus_core.projection.units import Unit
from primus_core.shape import Recomputed, Schedule, ScheduleName
from tests.core.test_projection_tape import LAYER, WEIGHTS, shape

CHUNK = Chunk(
    units=(Unit(name="layer", block=LAYER, weights=WEIGHTS),), received=10, sent=10, whole=True, holds_output=False
)
SPLIT: tuple[ScheduleName, ...] = ("zero_bubble", "zbv", "dualpipev")


def test_all_that_weights_need_waits_for_them() -> None:
    """Normed, wide and acted (90), and the gradients of what both products made (40 and 10)."""
    left = run_backward(CHUNK, run_forward(CHUNK), halved=True).left
    assert left == {"norm": 10, "mlp": 80, "gradients of activations": 50}


def test_what_was_sent_and_the_gradient_of_what_was_received_wait_where_they_are_told_to() -> None:
    """Ten bytes each."""
    chunk = evolve(CHUNK, keeps_sent=True, holds_received=True)
    assert run_backward(chunk, run_forward(chunk), halved=True).left["passed on"] == 20


def test_one_weight_after_the_other_gets_its_gradient() -> None:
    """All that waits (140) and the first gradient (8) are the most: normed and the gradient of wide are gone then."""
    ran = run_weights(CHUNK, run_forward(CHUNK))
    assert (ran.most.bytes, ran.most.at) == (148, "layer: up, weights")


def test_a_recomputed_block_runs_again_for_each_weight() -> None:
    """The second time (110) the gradient of narrow waits (10), wide and acted of the first time are there (80), and so
    is the gradient of the first weight (8)."""
    block = evolve(LAYER, recomputed=(Recomputed(first="norm", last="add"),))
    chunk = evolve(CHUNK, units=(Unit(name="layer", block=block, weights=WEIGHTS),))
    ran = run_weights(chunk, run_forward(chunk))
    assert (ran.most.bytes, ran.most.at) == (110 + 10 + 80 + 8, "layer: add, again")


@pytest.mark.parametrize("name", SPLIT)
def test_the_first_stage_runs_backward_at_once(name: ScheduleName) -> None:
    """Nothing asks for the gradient of its input; all other chunks have both halves somewhere, or whole passes."""
    kinds = {step.kind for step in steps(Schedule(name=name, micro_batches=8), 0, 2, 2) if step.chunk == 0}
    assert kinds == {"forward", "backward", "reduce"}


def test_gradients_of_inputs_stay_to_the_end_of_the_step() -> None:
    """Of each of 100 micro batches and both stages of the second rank; where they are divided among tensor parallel
    ranks they are gone with the gradients of weights."""
    told = shape("zero_bubble", micro_batches=100, ranks=2)
    twice = evolve(told, stages=tuple((chunks[0], chunks[0]) for chunks in told.stages))
    kept = evolve(twice, schedule=evolve(twice.schedule, keeps_given="step"))
    assert given(kept, 1) == 100 * 2 * 10
    assert given(evolve(kept, schedule=evolve(kept.schedule, keeps_given="weights")), 1) == 0


def test_each_chunk_is_reduced_once_at_its_end() -> None:
    """After it no pass of the same chunk comes."""
    told = steps(Schedule(name="zero_bubble", micro_batches=8), 1, 2, 2)
    assert sorted(step.chunk for step in told if step.kind == "reduce") == [0, 1]
    assert not [step for step in told if step.chunk in step.reduced]
