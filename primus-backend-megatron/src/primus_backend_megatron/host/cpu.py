"""What Megatron must leave out on a CPU: kernels that need CUDA or Transformer Engine, with the same mathematics."""

from __future__ import annotations

from attrs import frozen

from primus_backend_megatron.host.draft import Draft
from primus_core.errors import ConfigError, PrimusError
from primus_core.experiment import Value


@frozen
class _Rule:
    name: str
    used: Value
    why: str
    instead_of: tuple[Value, ...] = ()
    """Only these values are replaced; empty: every other."""


_TE = "Transformer Engine does not run on a CPU; Megatron's own layers compute the same"
_FUSED = "the fused kernel needs CUDA; the unfused operations compute the same"
_SHARDED = "Megatron shards weights over CUDA devices; each rank has them whole, with the same numbers"
_GRAPH = "there are no CUDA graphs on a CPU; the operations are the same"

RULES = (
    _Rule("transformer_impl", "local", _TE),
    _Rule("distributed_backend", "gloo", "NCCL needs CUDA or ROCm devices"),
    _Rule("masked_softmax_fusion", False, _FUSED),
    _Rule("gradient_accumulation_fusion", False, _FUSED),
    _Rule("bias_gelu_fusion", False, _FUSED),
    _Rule("bias_swiglu_fusion", False, _FUSED),
    _Rule("bias_dropout_fusion", False, _FUSED),
    _Rule("apply_rope_fusion", False, _FUSED),
    _Rule("fused_residual_rmsnorm", False, _FUSED),
    _Rule("no_persist_layer_norm", True, "the persistent kernel needs CUDA; the plain norm computes the same"),
    _Rule("num_workers", 0, "a worker process would import torch again for each loader"),
    _Rule("moe_grouped_gemm", False, "the grouped kernel needs CUDA; the experts are computed one after the other"),
    _Rule("moe_permute_fusion", False, _FUSED),
    _Rule("moe_router_fusion", False, _FUSED),
    _Rule("moe_enable_deepep", False, "DeepEP needs CUDA; the all-to-all dispatcher moves the same tokens"),
    _Rule("moe_token_dispatcher_type", "alltoall", "the flex dispatcher needs DeepEP, which needs CUDA", ("flex",)),
    _Rule("tp_comm_overlap", False, _TE),
    _Rule("use_te_activation_func", False, _TE),
    _Rule("use_transformer_engine_op_fuser", False, _TE),
    _Rule("mla_down_proj_fusion", False, _TE),
    _Rule("te_rng_tracker", False, _TE),
    _Rule("cuda_graph_impl", "none", _GRAPH),
    _Rule("enable_cuda_graph", False, _GRAPH),
    _Rule("external_cuda_graph", False, _GRAPH),
    _Rule(
        "async_save", False, "a process that saves in the background needs CUDA; the same is saved before the next step"
    ),
    _Rule("use_torch_fsdp2", False, _SHARDED),
    _Rule("use_megatron_fsdp", False, _SHARDED),
    _Rule("nccl_ub", False, "NCCL needs CUDA or ROCm devices"),
    _Rule("use_sharp", False, "NCCL needs CUDA or ROCm devices"),
)

_IMPOSSIBLE: dict[str, tuple[Value, str]] = {
    "fp8": (None, "8-bit floating point needs Transformer Engine on a GPU"),
    "fp4": (None, "4-bit floating point needs Transformer Engine on a GPU"),
    "window_size": (None, "attention over a window needs Transformer Engine on a GPU"),
    "softmax_type": ("vanilla", "attention with a sink needs Transformer Engine on a GPU"),
}
"""Parameters whose absence would change the numbers of the run: the only value that a CPU has, and why."""


def impossible(draft: Draft) -> list[PrimusError]:
    """Errors for what cannot be honoured on a CPU without changing the result."""
    if draft.target.accelerator != "cpu":
        return []
    return [*_absent(draft), *_unnormalized(draft), *_recomputed(draft)]


_WITHOUT_OUTPUT = ("layernorm", "moe_act")
"""Parts that Megatron recomputes through code that asks Transformer Engine for its 8-bit state, used or not."""


def _recomputed(draft: Draft) -> list[PrimusError]:
    modules = draft["recompute_modules"] if draft["recompute_granularity"] == "selective" else None
    return [
        ConfigError(
            f"`recompute_modules` cannot have {name} on a CPU",
            where=str(draft.asked.leaves["recompute_modules"].origin),
            why="recomputing it needs Transformer Engine",
            remedy=f"take {name} out, or train on a GPU",
        )
        for name in _WITHOUT_OUTPUT
        if isinstance(modules, list) and name in modules
    ]


def _unnormalized(draft: Draft) -> list[PrimusError]:
    """Megatron's own layers of latent attention normalize keys only where they normalize compressed queries too."""
    names = ("multi_latent_attention", "qk_layernorm")
    if draft["q_lora_rank"] is not None or not all(draft[name] for name in names):
        return []
    return [
        ConfigError(
            "`qk_layernorm` cannot be true on a CPU where `q_lora_rank` is null",
            where=str(draft.asked.leaves["qk_layernorm"].origin),
            why="latent attention that normalizes keys alone needs Transformer Engine on a GPU",
            remedy="set `qk_layernorm: false` or a `q_lora_rank`, or train on a GPU",
        )
    ]


def _absent(draft: Draft) -> list[PrimusError]:
    return [
        ConfigError(
            f"`{name}` cannot be {draft[name]} on a CPU",
            where=str(draft.asked.leaves[name].origin),
            why=why,
            remedy=f"set `{name}: {'null' if possible is None else possible}`, or train on a GPU",
        )
        for name, (possible, why) in _IMPOSSIBLE.items()
        if draft[name] != possible
    ]


def adjust_platform(draft: Draft) -> None:
    """Nothing on CUDA and ROCm: Megatron's defaults are made for them."""
    if draft.target.accelerator != "cpu":
        return
    for rule in RULES:
        if not rule.instead_of or draft[rule.name] in rule.instead_of:
            draft.adjust(rule.name, rule.used, rule.why)
