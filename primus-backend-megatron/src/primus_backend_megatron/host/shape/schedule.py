"""Micro batches of a step, and the order in which the stages work on them."""

from __future__ import annotations

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape.layers import chunks_of
from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.shape import Schedule


def schedule_of(case: Case) -> Schedule:
    """Megatron's: one forward, one backward, interleaved where ranks have several chunks."""
    stages, step = chunks_of(case), case.samples_at_once
    batch = case.size("global_batch_size", step)
    piped = len(stages) > 1
    chunks = len(stages[0])
    group = case.size("microbatch_group_size_per_vp_stage", 0)
    boundary = Work.of(case).stream() if piped else 0
    return Schedule(
        name=("interleaved_1f1b" if chunks > 1 else "1f1b") if piped else "none",
        micro_batches=max(1, batch // step),
        boundary=boundary,
        forward_beside=tuple(size * boundary for size in _in_forward(len(stages), chunks)) if piped else (),
        backward_beside=tuple(size * boundary for size in _in_backward(len(stages), chunks)) if piped else (),
        remains=tuple(size * boundary for size in _remaining(len(stages), chunks)) if piped else (),
        names_last=piped and chunks > 1,
        receives_ahead=piped and chunks > 1 and case.on("overlap_p2p_comm"),
        holds_gradient=True,
        round=group or None,
    )


def _in_forward(stages: int, chunks: int) -> list[int]:
    """By stage, the tensors between stages that a forward pass in the steady state finds beside its own input.

    With one chunk the schedule still names the last output, whose graph ends in the received input and its gradient,
    and the gradient that the next stage sent for it. With several the gradient that was sent last and the one that came
    for the next backward pass.
    """
    if chunks > 1:
        return [2] * stages
    return [2 * (stage > 0) + (stage < stages - 1) for stage in range(stages)]


def _remaining(stages: int, chunks: int) -> list[int]:
    """What a chunk received last, and its gradient: its layers name it until they are given another."""
    return [2 * (chunks - (stage == 0)) for stage in range(stages)]


def _in_backward(stages: int, chunks: int) -> list[int]:
    """The gradient that was sent last is named until the next is."""
    return [int(stage > 0 or chunks > 1) for stage in range(stages)]
