"""The loss in pieces, so that the logits of a whole sequence are never there at once."""

from __future__ import annotations

from primus_backend_torchtitan.host.draft import Draft
from primus_backend_torchtitan.host.schedules import schedule_of

_KIND, _PIECES = "loss.kind", "loss.num_chunks"


def adjust_loss(draft: Draft) -> None:
    """As many pieces of equal length as the sequence of a rank can be cut into, up to TorchTitan's own number.

    One piece where gradients of inputs and weights are computed apart: of pieces torch 2.13 loses the last norm's.
    """
    schedule = schedule_of(draft["parallelism.pipeline_parallel_schedule"])
    staged = draft.integer("parallelism.pipeline_parallel_degree") > 1
    if staged and schedule is not None and schedule.splits and not draft.is_set(_PIECES):
        why = f"{schedule.name} would leave the last norm without a gradient; the loss is the same"
        draft.adjust_unset(_KIND, "cross_entropy", why)
    if draft[_KIND] != "chunked" or draft.is_set(_PIECES):
        return
    length = draft.integer("training.seq_len") // draft.integer("parallelism.context_parallel_degree")
    most = draft.integer(_PIECES)
    pieces = next((number for number in range(most, 0, -1) if length % number == 0), most)
    draft.adjust(_PIECES, pieces, f"{length} tokens cannot be cut into {most} equal pieces; the loss is the same")
