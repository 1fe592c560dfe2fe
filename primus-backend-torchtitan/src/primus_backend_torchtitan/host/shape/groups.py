"""Sizes of TorchTitan's process groups."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_torchtitan.host.case import CONTEXT, EXPERT, PIPELINE, TENSOR, Case
from primus_core.shape import Group

Groups = Mapping[Group, int]


def groups_of(case: Case) -> Groups:
    """Weights are sharded over context parallel ranks too; experts over the tensor parallel ones beside, once these
    no longer divide them."""
    copies = case.size("parallelism.data_parallel_replicate_degree")
    tensor, context, expert = (case.size(name) for name in (TENSOR, CONTEXT, EXPERT))
    shards = max(1, case.replicas // copies) * context
    return {
        "tensor": tensor,
        "context": context,
        "pipeline": case.size(PIPELINE),
        "expert": expert,
        "data": copies * shards,
        "shard": shards,
        "replicate": copies,
        "expert_data": copies * max(1, shards * tensor // expert),
    }
