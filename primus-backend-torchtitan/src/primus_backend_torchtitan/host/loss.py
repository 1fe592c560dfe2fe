"""The loss in pieces, so that the logits of a whole sequence are never there at once."""

from __future__ import annotations

from primus_backend_torchtitan.host.draft import Draft

_PIECES = "loss.num_chunks"


def adjust_loss(draft: Draft) -> None:
    """As many pieces of equal length as the sequence of a rank can be cut into, up to TorchTitan's own number."""
    if draft["loss.kind"] != "chunked" or draft.is_set(_PIECES):
        return
    length = draft.integer("training.seq_len") // draft.integer("parallelism.context_parallel_degree")
    most = draft.integer(_PIECES)
    pieces = next((number for number in range(most, 0, -1) if length % number == 0), most)
    draft.adjust(_PIECES, pieces, f"{length} tokens cannot be cut into {most} equal pieces; the loss is the same")
