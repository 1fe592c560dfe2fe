"""Environment variables that Megatron relies on."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_megatron.host.draft import Draft


def environment_of(draft: Draft) -> Mapping[str, str]:
    """What Megatron's `validate_args` demands of the environment for a layout.

    Its overlap of tensor and context parallelism with computation relies on the order of one device queue; sharding
    by FSDP needs several.
    """
    sharded = draft["use_torch_fsdp2"] or draft["use_megatron_fsdp"]
    split = max(draft.integer("tensor_model_parallel_size"), draft.integer("context_parallel_size")) > 1
    return {"CUDA_DEVICE_MAX_CONNECTIONS": "1"} if split and not sharded else {}
