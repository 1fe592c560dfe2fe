"""Batches: what TorchTitan reads otherwise than it was meant."""

from __future__ import annotations

from primus_backend_torchtitan.host.draft import Draft
from primus_backend_torchtitan.host.layout import replicas

NO_CLIPPING = 1e30
"""A norm that no gradient reaches; 0, which is Megatron's word for it, would make every gradient zero."""


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
    local = max(micro, batch // replicas(draft)) if batch > 0 else micro
    draft.adjust("parallelism.pipeline_parallel_microbatch_size", micro, "micro_batch_size, under pipeline parallelism")
    why = "a replica's share of the global batch, which the pipeline divides into micro batches"
    draft.adjust("training.local_batch_size", local, why)
