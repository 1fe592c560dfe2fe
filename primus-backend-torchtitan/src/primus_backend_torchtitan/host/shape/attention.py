"""Weights and buffers of attention: grouped queries, or latent."""

from __future__ import annotations

from primus_backend_torchtitan.architecture import Model, size
from primus_backend_torchtitan.families import LLAMA, family_of
from primus_backend_torchtitan.host.shape.tensors import columns, rows, whole
from primus_core.shape import DType, Parameter

_NAME = "attention"


def attention_of(model: Model, dtype: DType) -> tuple[Parameter, ...]:
    """In the order in which TorchTitan registers them."""
    return _latent(model, dtype) if model["multi_latent_attention"] else _grouped(model, dtype)


def query_groups(model: Model) -> int:
    """Heads of keys and values."""
    heads = size(model, "num_attention_heads")
    return heads if model["group_query_attention"] is False else size(model, "num_query_groups", heads)


def head_size(model: Model) -> int:
    """Features of a head of grouped-query attention."""
    return size(model, "kv_channels", size(model, "hidden_size") // size(model, "num_attention_heads"))


def rotation_of(model: Model, sequence: int) -> Parameter:
    """The rotation of every position, which each layer has of its own: complex numbers, or cosines and sines."""
    name = f"{_NAME}.rope.cache"
    if model["multi_latent_attention"]:
        return whole(name, (sequence, size(model, "qk_pos_emb_head_dim") // 2, 2), "fp32")
    if family_of(model) is LLAMA:
        return whole(name, (sequence, head_size(model) // 2, 2), "fp32")
    return whole(name, (sequence, head_size(model) * 2), "fp32")


def _grouped(model: Model, dtype: DType) -> tuple[Parameter, ...]:
    hidden, head = size(model, "hidden_size"), head_size(model)
    queries, others = size(model, "num_attention_heads") * head, query_groups(model) * head
    named = {"wqkv": queries + 2 * others} if model["fuse_qkv"] else {"wq": queries, "wk": others, "wv": others}
    bias = bool(model["add_qkv_bias"])
    projections = [
        columns(f"{_NAME}.qkv_linear.{name}", hidden, width, dtype, bias=bias) for name, width in named.items()
    ]
    norms = [whole(f"{_NAME}.{name}.weight", (head,), dtype) for name in ("q_norm", "k_norm")]
    return (
        *(tensor for projection in projections for tensor in projection),
        *rows(f"{_NAME}.wo", queries, hidden, dtype),
        *(norms if model["qk_layernorm"] else ()),
    )


def _latent(model: Model, dtype: DType) -> tuple[Parameter, ...]:
    hidden, heads, latent = (size(model, name) for name in ("hidden_size", "num_attention_heads", "kv_lora_rank"))
    plain, turned, value = (size(model, name) for name in ("qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"))
    return (
        *_latent_queries(model, heads * (plain + turned), dtype),
        whole(f"{_NAME}.wkv_a.weight", (latent + turned, hidden), dtype),
        whole(f"{_NAME}.kv_norm.weight", (latent,), dtype),
        *columns(f"{_NAME}.wkv_b", latent, heads * (plain + value), dtype),
        *rows(f"{_NAME}.wo", heads * value, hidden, dtype),
    )


def _latent_queries(model: Model, width: int, dtype: DType) -> tuple[Parameter, ...]:
    hidden, latent = size(model, "hidden_size"), size(model, "q_lora_rank", 0)
    if not latent:
        return columns(f"{_NAME}.wq", hidden, width, dtype)
    return (
        whole(f"{_NAME}.wq_a.weight", (latent, hidden), dtype),
        whole(f"{_NAME}.q_norm.weight", (latent,), dtype),
        *columns(f"{_NAME}.wq_b", latent, width, dtype),
    )
