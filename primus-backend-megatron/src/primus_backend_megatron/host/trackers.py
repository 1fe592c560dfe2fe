"""TensorBoard and wandb: off unless they are named completely or switched on, and not disabled."""

from __future__ import annotations

from primus_backend_megatron.host.draft import Draft


def adjust_trackers(draft: Draft) -> None:
    """``disable_wandb`` and ``disable_tensorboard`` are not Megatron's: true switches off, false on, null neither."""
    _adjust_tensorboard(draft, _switch(draft, "disable_tensorboard"))
    _adjust_wandb(draft, _switch(draft, "disable_wandb"))


def _switch(draft: Draft, name: str) -> bool | None:
    """What a switch that is not Megatron's was set to; the table of foreign parameters lets true and false pass."""
    value = draft.asked.left_out.get(name)
    return None if value is None else str(value).lower() == "true"


def _adjust_tensorboard(draft: Draft, disabled: bool | None) -> None:
    if disabled is True and draft["tensorboard_dir"]:
        draft.adjust("tensorboard_dir", None, "disable_tensorboard is true")
    elif disabled is False and not draft["tensorboard_dir"]:
        draft.adjust("tensorboard_dir", f"{draft.folder}/tensorboard", "disable_tensorboard is false")


def _adjust_wandb(draft: Draft, disabled: bool | None) -> None:
    if not draft["wandb_project"]:
        return
    if disabled is True:
        draft.adjust("wandb_project", "", "disable_wandb is true")
    elif disabled is None and not draft["wandb_exp_name"]:
        draft.adjust("wandb_project", "", "wandb is on where wandb_exp_name is set, or disable_wandb is false")
    else:
        if not draft["wandb_exp_name"]:
            draft.adjust("wandb_exp_name", draft.exp_name, "the experiment's name; Megatron needs one for wandb")
        if not draft["wandb_save_dir"]:
            draft.adjust("wandb_save_dir", f"{draft.folder}/wandb", "Megatron would write next to the checkpoints")
