"""Process groups, and who holds gradients and the optimizer's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape.operators_work import is_fused
from primus_backend_megatron.host.shape.optimizers import deals_matrices, moments_of_rest
from primus_backend_megatron.host.shape.parameters import dtype_of
from primus_core.experiment import Value
from primus_core.shape import DType, Group, Sharding

_MOMENTS = ("exp_avg_dtype", "exp_avg_sq_dtype")
_PLAIN, _FAST = 128, 2**16
"""Multiples that buckets end at, and those for collectives that are fast."""
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
        "shard": max(1, case.world_size // (tensor * pipeline)),
        "replicate": case.size("num_distributed_optimizer_instances"),
        "expert": expert,
        "expert_tensor": expert_tensor,
        "expert_data": max(1, case.world_size // (expert_tensor * expert * pipeline)),
    }


def sharding_of(case: Case) -> Sharding:
    """Weights whole on each rank, unless they are fully sharded; the optimizer's state too, or in equal shares."""
    if case.on("use_torch_fsdp2"):
        return _fully_sharded(case)
    divided = case.on("use_distributed_optimizer") or case.on("overlap_param_gather") or deals_matrices(case)
    return Sharding(
        scheme="distributed_optimizer" if divided else "replicated",
        gradient=_gradient(case),
        main=_main(case),
        moments=_moments(case),
        bucket=_bucket(case),
        optimizer=_optimizer(case),
        copies_gradients=_main(case) is not None and _gradient(case) != "fp32" and not _aware(case),
        multiple=_FAST if case.on("ddp_pad_buckets_for_high_nccl_busbw") else _PLAIN,
    )


def _fully_sharded(case: Case) -> Sharding:
    """PyTorch's FSDP2 without a policy of its own: shards, what is gathered and gradients in the format of the model;
    the optimizer copies bf16 shards and their gradients to fp32."""
    dtype = dtype_of(case)
    return Sharding(
        scheme="fully_sharded",
        gradient=dtype,
        main=None,
        copy=None if dtype == "fp32" else "fp32",
        moments=_moments(case),
        optimizer=_optimizer(case),
        copies_gradients=dtype != "fp32",
        reshard_after_forward=case.on("torch_fsdp2_reshard_after_forward"),
    )


def _moments(case: Case) -> tuple[DType, ...]:
    return tuple(_state(case, name) for name in _MOMENTS[: moments_of_rest(case)])


def _gradient(case: Case) -> DType:
    """Megatron adds gradients of bf16 in fp32 unless told otherwise, and those of fp16 in fp16."""
    dtype, wide = dtype_of(case), case.on("accumulate_allreduce_grads_in_fp32")
    if dtype == "bf16":
        wide = not case.on("grad_reduce_in_bf16") and (wide or case.values["main_grads_dtype"] == "fp32")
    return "fp32" if wide else dtype


def _main(case: Case) -> DType | None:
    """Transformer Engine's optimizer keeps of fp32 weights only what their bf16 lacks: 16 bits each."""
    dtype = dtype_of(case)
    if dtype == "fp32":
        return None
    main = _state(case, "main_params_dtype")
    return "fp16" if _aware(case) and dtype == "bf16" and main == "fp32" else main


def _state(case: Case, name: str) -> DType:
    return _DTYPES.get(case.values[name], "fp32") if _aware(case) else "fp32"


def _optimizer(case: Case) -> Literal["fused", "foreach", "for-loop"]:
    """Transformer Engine's; without it PyTorch's own, which works on all tensors at once on GPUs alone."""
    if is_fused(case):
        return "fused"
    return "for-loop" if case.values["distributed_backend"] == "gloo" else "foreach"


def _aware(case: Case) -> bool:
    return case.on("use_precision_aware_optimizer")


def _bucket(case: Case) -> int | None:
    """Megatron's own rule: buckets only where reduction overlaps, of 40 million elements or a million for each rank."""
    if not case.on("overlap_grad_reduce"):
        return None
    return case.size("ddp_bucket_size", max(40_000_000, 1_000_000 * groups_of(case)["data"]))
