"""Batches, schedule, evaluation and checkpoints: what TorchTitan reads otherwise than it was meant."""

from __future__ import annotations

import math
import os

from primus_backend_torchtitan.host.draft import Draft

NO_CLIPPING = 1e30
"""A norm that no gradient reaches; 0, which is Megatron's word for it, would make every gradient zero."""

_NATIVE_SCHEDULE = ("lr_scheduler.decay_type", "lr_scheduler.decay_ratio", "lr_scheduler.min_lr_factor")
_MEGATRON_SCHEDULE = ("lr_scheduler.decay_style", "lr_scheduler.min_lr")


def adjust_batches(draft: Draft) -> None:
    """With pipeline parallelism TorchTitan's local batch is divided into micro batches."""
    if draft["training.max_norm"] == 0:
        draft.adjust("training.max_norm", NO_CLIPPING, "0 means no clipping")
    stages = draft.integer("parallelism.pipeline_parallel_degree")
    if stages > 1 or draft.integer("parallelism.expert_parallel_degree") > 1:
        why = "TorchTitan cannot capture a pipeline, or most dispatchers of experts, in CUDA graphs; computed the same"
        draft.adjust_unset("training.disable_cuda_graphs", True, why)
    wish = draft.asked.wishes.get("training.local_batch_size")
    if stages == 1 or wish is None or wish.path != "micro_batch_size":
        return
    micro = draft.integer("training.local_batch_size")
    batch = draft.integer("training.global_batch_size")
    local = max(micro, batch // _replicas(draft)) if batch > 0 else micro
    draft.adjust("parallelism.pipeline_parallel_microbatch_size", micro, "micro_batch_size, under pipeline parallelism")
    why = "a replica's share of the global batch, which the pipeline divides into micro batches"
    draft.adjust("training.local_batch_size", local, why)


def adjust_schedule(draft: Draft) -> None:
    """The learning rate of Megatron's formula, unless TorchTitan's own schedule is asked for by its own names."""
    if any(draft.is_set(name) for name in _NATIVE_SCHEDULE):
        why = "TorchTitan's own schedule is asked for, by its own names"
        draft.adjust_unset("lr_scheduler.kind", "native", why)
    if draft["lr_scheduler.kind"] == "native":
        for name in filter(draft.is_set, _MEGATRON_SCHEDULE):
            draft.drop(name, "TorchTitan's own schedule is asked for")
    else:
        draft.adjust_unset("lr_scheduler.warmup_steps", 0, "no warm-up until it is asked for")


def adjust_evaluation(draft: Draft) -> None:
    """Evaluation is on where `eval_interval` and `eval_iters` ask for it."""
    steps = draft["validator.steps"]
    if draft.is_set("validator.steps") and (steps is None or steps == 0):
        draft.drop("validator.steps", "0: no evaluation")
        if draft.is_set("validator.freq"):
            draft.drop("validator.freq", "there is no evaluation")
        return
    if draft.is_set("validator.steps"):
        draft.adjust_unset("validator.enable", True, "eval_iters is set")
        _count_local_batches(draft)


def _count_local_batches(draft: Draft) -> None:
    """`eval_iters` counts global batches, TorchTitan's steps count local ones."""
    batch = draft.integer("training.global_batch_size")
    if draft.asked.wishes["validator.steps"].path == "eval_iters" and batch > 0:
        times = max(1, batch // (draft.integer("training.local_batch_size") * _replicas(draft)))
        why = f"a global batch is {times} local batches of each rank"
        draft.adjust("validator.steps", draft.integer("validator.steps") * times, why)


def _replicas(draft: Draft) -> int:
    """Groups of ranks that each hold one copy of the model and read samples of their own."""
    names = ("tensor_parallel_degree", "pipeline_parallel_degree", "context_parallel_degree")
    copies = math.prod(draft.integer(f"parallelism.{name}") for name in names)
    return max(1, draft.target.world_size // copies)


def adjust_saving(draft: Draft) -> None:
    """An interval saves to the experiment's own folder; checkpoints keep the optimizer's state."""
    off = draft.is_set("checkpoint.folder") and not draft["checkpoint.folder"]
    if off:
        draft.drop("checkpoint.folder", "null: no checkpoints are saved")
    draft.adjust_unset("dump_folder", f"{draft.folder}/torchtitan", "what is written belongs to the experiment")
    if draft.is_set("checkpoint.interval") and not off:
        draft.adjust_unset("checkpoint.enable", True, "save_interval is set")
    folder = draft["checkpoint.folder"]
    if draft.is_set("checkpoint.folder") and isinstance(folder, str):
        draft.adjust("checkpoint.folder", os.path.abspath(os.path.expanduser(folder)), "made absolute")
    elif draft["checkpoint.enable"]:
        draft.adjust("checkpoint.folder", f"{draft.folder}/checkpoints", "the experiment's own folder")
    why = "all checkpoints keep the optimizer's state, so that every one can be continued"
    draft.adjust_unset("checkpoint.last_save_model_only", False, why)
    if not draft["checkpoint.initial_load_path"] and not draft["checkpoint.initial_load_in_hf"]:
        why = "there is no initial checkpoint; TorchTitan would warn of it"
        draft.adjust_unset("checkpoint.initial_load_model_only", False, why)
        draft.adjust_unset("hf_assets_path", "", "nothing is read from a Hugging Face folder")
    if draft.is_set("checkpoint.load") or draft.auto_continue:
        draft.adjust_unset("checkpoint.enable", True, "a checkpoint is to be loaded")
