"""Process groups, and who holds gradients and the optimizer's state."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape.parameters import dtype_of
from primus_core.experiment import Value
from primus_core.shape import DType, Group, Sharding

_DTYPES: Mapping[Value, DType] = {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}


def groups_of(case: Case) -> Mapping[Group, int]:
    """Sizes of all groups."""
    tensor, pipeline = case.size("tensor_model_parallel_size"), case.size("pipeline_model_parallel_size")
    context, expert = case.size("context_parallel_size"), case.size("expert_model_parallel_size")
    expert_tensor = case.size("expert_tensor_parallel_size", tensor)
    return {
        "tensor": tensor,
        "context": context,
        "pipeline": pipeline,
        "data": max(1, case.world_size // (tensor * pipeline)),
        "expert": expert,
        "expert_tensor": expert_tensor,
        "expert_data": max(1, case.world_size // (expert_tensor * expert * pipeline)),
    }


def sharding_of(case: Case) -> Sharding:
    """Weights whole on each rank; the optimizer's state too, or in equal shares."""
    divided = case.on("use_distributed_optimizer") or case.on("overlap_param_gather")
    aware = case.on("use_precision_aware_optimizer")
    dtype = dtype_of(case)
    half = "bf16" if case.on("grad_reduce_in_bf16") else "fp32"
    moments = 2 if case.values["optimizer"] == "adam" else 1
    return Sharding(
        scheme="distributed_optimizer" if divided else "replicated",
        gradient="bf16" if half == "bf16" else _state(case, "main_grads_dtype", aware),
        main=None if dtype == "fp32" else _state(case, "main_params_dtype", aware),
        moments=tuple(_state(case, name, aware) for name in ("exp_avg_dtype", "exp_avg_sq_dtype")[:moments]),
        bucket=_bucket(case),
    )


def _state(case: Case, name: str, aware: bool) -> DType:
    return _DTYPES.get(case.values[name], "fp32") if aware else "fp32"


def _bucket(case: Case) -> int | None:
    """Megatron's own rule: buckets only where reduction overlaps, of 40 million elements or a million for each rank."""
    if not case.on("overlap_grad_reduce"):
        return None
    return case.size("ddp_bucket_size", max(40_000_000, 1_000_000 * groups_of(case)["data"]))
