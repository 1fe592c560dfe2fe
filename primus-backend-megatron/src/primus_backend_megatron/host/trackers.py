"""TensorBoard and wandb: off unless they are named completely and not disabled."""

from __future__ import annotations

from primus_backend_megatron.host.draft import Draft


def adjust_trackers(draft: Draft) -> None:
    """``disable_wandb`` and ``disable_tensorboard`` are not Megatron's: what they switch off must not be named."""
    if draft["tensorboard_dir"] and draft.asked.left_out.get("disable_tensorboard") is True:
        draft.adjust("tensorboard_dir", None, "disable_tensorboard is true")
    if not draft["wandb_project"]:
        return
    if draft.asked.left_out.get("disable_wandb") is True:
        draft.adjust("wandb_project", "", "disable_wandb is true")
    elif not draft["wandb_exp_name"]:
        draft.adjust("wandb_project", "", "wandb starts with wandb_exp_name only")
    elif not draft["wandb_save_dir"]:
        draft.adjust("wandb_save_dir", f"{draft.folder}/wandb", "Megatron would write next to the checkpoints")
