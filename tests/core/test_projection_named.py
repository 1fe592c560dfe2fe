"""What a library still refers to of micro batches that have run backward, against figures worked out by hand.

The third of four ranks with two chunks and eight micro batches runs six times forward first: all four micro batches of
chunk 0, then two of chunk 1, and each backward pass follows a forward pass. Between stages pass 10 bytes.
"""

from __future__ import annotations

from attrs import evolve

from primus_core.projection.iteration import Peak, peak
from primus_core.projection.order import steps
from primus_core.shape import ModelShape, Run, Schedule
from tests.core.test_projection_tape import shape

NAMES = Schedule(name="interleaved_1f1b", micro_batches=8, boundary=10, names_last=True)
AHEAD = evolve(NAMES, receives_ahead=True)


def _found(schedule: Schedule, *, recompute: int = 0, remains: int = 0) -> Peak:
    """Of two chunks of one layer each."""
    told = shape(ranks=4)
    layer = evolve(told.blocks["layer"], remains=remains)
    chunk = (Run(block="layer", recompute=recompute or None),)
    stages = tuple((chunk, chunk) for _ in range(4))
    blocks = {**told.blocks, "layer": layer}
    model: ModelShape = evolve(told, schedule=schedule, stages=stages, blocks=blocks)
    return peak(model, 2)


def test_steps_tell_what_passes_around_them() -> None:
    """The sixth backward pass: that of chunk 0's second micro batch, after chunk 0 has run forward and before chunk 1
    does. Chunk 1 has nothing left to run backward; its third micro batch was the first to run with a backward pass."""
    backward = [step for step in steps(AHEAD, 2, 4, 2) if step.kind == "backward"]
    (sixth,) = [step for step in backward if step.kept == (6, 0) and step.returned is None and step.chunk == 0]
    assert (sixth.sent, sixth.coming, sixth.first) == (0, 1, 1)
    fourth = [step for step in backward if step.returned == 1 and step.chunk == 1]
    assert [step.kept for step in fourth] == [(6, 0)]
    assert all(step.sent is None and step.coming is None for step in steps(AHEAD, 2, 4, 2) if step.kind == "forward")


def test_inputs_that_are_named_still() -> None:
    """At the most six others wait, what was sent last lives, and chunk 1's layers name their last input and its
    gradient. Where stages send while they compute, the next input has come and the first that came so is named too."""
    plain = _found(evolve(NAMES, names_last=False))
    assert _found(NAMES).bytes == plain.bytes + 10 + 20
    assert _found(AHEAD).bytes == plain.bytes + 10 + 20 + 10 + 20


def test_what_was_recomputed_remains_in_the_other_chunk() -> None:
    """Of 20 bytes that a layer leaves, the input is that which is named already."""
    assert _found(AHEAD, recompute=1, remains=20).bytes == _found(AHEAD, recompute=1).bytes + 10
