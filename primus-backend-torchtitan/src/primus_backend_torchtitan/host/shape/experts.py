"""Weights and buffers of a mixture of experts."""

from __future__ import annotations

from primus_backend_torchtitan.architecture import Model, ffn_hidden_size, size
from primus_backend_torchtitan.host.case import EXPERT, Case
from primus_backend_torchtitan.host.shape.dense import feed_forward_of
from primus_backend_torchtitan.host.shape.tensors import whole
from primus_backend_torchtitan.host.shards import cuts_features
from primus_core.shape import DType, Group, Parameter

_NAME = "moe"


def experts_of(case: Case, model: Model, dtype: DType) -> tuple[Parameter, ...]:
    """Those that tokens are routed to, the router, and the one that every token uses."""
    hidden, count = size(model, "hidden_size"), size(model, "num_experts")
    shared = size(model, "moe_shared_expert_intermediate_size", 0)
    return (
        *_routed(case, model, dtype),
        whole(f"{_NAME}.router.gate.weight", (count, hidden), dtype),
        *(feed_forward_of(f"{_NAME}.shared_experts", hidden, shared, dtype) if shared else ()),
    )


def expert_buffers(model: Model) -> tuple[Parameter, ...]:
    """How often each expert was chosen, and the bias that balances the choice."""
    count = size(model, "num_experts")
    named = ["tokens_per_expert_E"]
    if model["moe_router_enable_expert_bias"] and model["moe_router_bias_update_rate"]:
        named.insert(0, "expert_bias_E")
    return tuple(whole(f"{_NAME}.{name}", (count,), "fp32") for name in named)


def _routed(case: Case, model: Model, dtype: DType) -> tuple[Parameter, ...]:
    """Whole experts on each expert parallel rank; without any, slices of all experts on each tensor parallel one."""
    hidden, count = size(model, "hidden_size"), size(model, "num_experts")
    inner = size(model, "moe_ffn_hidden_size", ffn_hidden_size(model))
    apart = case.size(EXPERT) > 1
    wide: tuple[Group | None, ...] = ("expert",) if apart else (None, "tensor")
    narrow: tuple[Group | None, ...] = ("expert",) if apart else (None, None, "tensor")
    return tuple(
        Parameter(
            name=f"{_NAME}.routed_experts.inner_experts.{name}",
            shape=(count, hidden, inner) if name == "w2_EDF" else (count, inner, hidden),
            dtype=dtype,
            axes=narrow if name == "w2_EDF" else wide,
            expert=apart,
            shard_dimension=int(cuts_features(case)),
        )
        for name in ("w1_EFD", "w2_EDF", "w3_EFD")
    )
