"""What portable parameters mean, where TorchTitan's habits are others than those that all back ends share."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_torchtitan.host.draft import Draft
from primus_core.errors import ConfigError, PrimusError
from primus_core.experiment import Value

SHARED_DEFAULTS: Mapping[str, Value] = {
    "optimizer.weight_decay": 0.01,
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.999,
    "optimizer.eps": 1e-8,
    "lr_scheduler.min_lr": 0.0,
    "lr_scheduler.decay_style": "linear",
    "lr_scheduler.warmup_steps": 0,
    "training.max_norm": 1.0,
    "training.mixed_precision_param": "float32",
    "debug.seed": 1234,
}
"""What a portable parameter is where nobody sets it: the same for every back end, and so Megatron's own default."""

DOCUMENTS, POSITIONS = "dataloader.documents", "dataloader.document_positions"
_GROUPS = "optimizer.param_groups"


def meaningless(draft: Draft) -> list[PrimusError]:
    """Errors for what TorchTitan could only do otherwise than it was meant."""
    if draft[POSITIONS] is not True or draft[DOCUMENTS] is True or not (draft.aligned or draft.is_set(DOCUMENTS)):
        return []
    wish = draft.asked.wishes[POSITIONS]
    return [
        ConfigError(
            f"`{wish.path}` is true and `reset_attention_mask` is not",
            where=str(wish.leaf.origin),
            why="TorchTitan makes its masks of the positions: tokens would see their own document only",
            remedy=f"set `reset_attention_mask: true` too, or remove `{wish.path}`",
        )
    ]


def adjust_semantics(draft: Draft) -> None:
    """Documents, weight decay, precision, and what nobody set. The schedule and evaluation have files of their own."""
    if draft.aligned:
        _share_defaults(draft)
    else:
        _keep_habits(draft)
    if draft[DOCUMENTS]:
        why = "TorchTitan makes its masks of the positions; rotary ones are relative, so the attention is the same"
        draft.adjust(POSITIONS, True, why)


def _share_defaults(draft: Draft) -> None:
    for native, value in SHARED_DEFAULTS.items():
        section = native.partition(".")[0]
        if section == "optimizer" and draft.is_set(_GROUPS):
            continue
        if section == "lr_scheduler" and draft["lr_scheduler.kind"] == "native":
            continue
        draft.adjust_unset(native, value, "nobody set it; the same in every back end")


def _keep_habits(draft: Draft) -> None:
    """TorchTitan decays every parameter, and its data sets keep documents apart."""
    why = "semantics: native"
    if not draft.is_set(_GROUPS):
        draft.adjust_unset("optimizer.decay_norms", True, why)
    if draft["dataloader.kind"] == "primus":
        draft.adjust_unset(DOCUMENTS, True, why)
