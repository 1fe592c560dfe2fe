"""Micro batches of a step, and the order in which the stages work on them."""

from __future__ import annotations

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape.layers import chunks_of
from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.shape import Schedule


def schedule_of(case: Case) -> Schedule:
    """Megatron's: one forward, one backward, interleaved where ranks have several chunks.

    It refers to the gradient that it sent last until it sends the next.
    """
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
        forward_beside=boundary,
        backward_beside=boundary,
        round=group or None,
    )
