"""What portable parameters mean, where Megatron's habits are others than those that all back ends share."""

from __future__ import annotations

from primus_backend_megatron.host.draft import Draft

_MASKS = ("eod_mask_loss",)
"""Parameters that leave micro batches with unequal numbers of tokens that count."""


def adjust_semantics(draft: Draft) -> None:
    """The loss is the mean over the tokens of the global batch; Megatron's is a mean of the micro batches' means.

    The two differ only where micro batches do not have the same number of tokens that count.
    """
    if not draft.aligned or not any(draft[name] for name in _MASKS):
        return
    why = "masked tokens are unequal among micro batches; in every back end each token of the global batch counts alike"
    draft.adjust_unset("calculate_per_token_loss", True, why)
    if draft["calculate_per_token_loss"]:
        draft.adjust("ddp_average_in_collective", False, "gradients are divided by tokens: calculate_per_token_loss")
