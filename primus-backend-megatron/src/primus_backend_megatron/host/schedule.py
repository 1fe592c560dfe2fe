"""The learning rate's schedule of a run that is cut short."""

from __future__ import annotations

from primus_backend_megatron.host.draft import Draft


def adjust_schedule(draft: Draft) -> None:
    """Megatron refuses a warm-up that outlasts the run; its schedule then ends after the warm-up, not with the run.

    A run shortened for a trial (``train_iters=4``) has the learning rates of the first iterations of the full one.
    """
    counted = "iters" if draft["train_iters"] else "samples"
    warmup, length = draft.integer(f"lr_warmup_{counted}"), draft.integer(f"train_{counted}")
    if warmup >= length and draft[f"lr_decay_{counted}"] is None:
        why = f"the run ends within its warm-up of {warmup} {counted}, which Megatron wants shorter than the schedule"
        draft.adjust(f"lr_decay_{counted}", warmup + 1, why)
