"""Sizes of TorchTitan's process groups."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_torchtitan.host.case import CONTEXT, EXPERT, PIPELINE, TENSOR, Case
from primus_backend_torchtitan.host.shards import COPIES, shards_of
from primus_core.shape import Group

Groups = Mapping[Group, int]


def groups_of(case: Case) -> Groups:
    """Experts are shared among the ranks that share weights and tensors, once these no longer divide them."""
    copies, shards, tensor, expert = case.size(COPIES), shards_of(case), case.size(TENSOR), case.size(EXPERT)
    return {
        "tensor": tensor,
        "context": case.size(CONTEXT),
        "pipeline": case.size(PIPELINE),
        "expert": expert,
        "data": copies * shards,
        "shard": shards,
        "replicate": copies,
        "expert_data": copies * max(1, shards * tensor // expert),
    }
