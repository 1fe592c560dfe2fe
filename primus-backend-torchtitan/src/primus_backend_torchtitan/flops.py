"""Floating-point operations of a model, by Megatron-LM's formula: figures of both back ends can be compared.

Counted are the multiplications of matrices, forward and twice as many backward; recomputation is not. Of attention's
scores the half is counted that the causal mask leaves, where TorchTitan itself counts all.
"""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_torchtitan.architecture import ffn_hidden_size, layers_with_experts, size
from primus_core.experiment import Value

_TRAINED = 3 * 2
"""Forward, by weights and by inputs; a multiplication and an addition."""

Model = Mapping[str, Value]


def flops_per_token(model: Model, sequence: int) -> float:
    """Of one token of a sequence, forward and backward.

    Args:
        model: the architecture by portable names, with defaults filled in.
    """
    hidden, layers = size(model, "hidden_size"), size(model, "num_layers")
    projections, scores = _latent_attention(model) if model["multi_latent_attention"] else _attention(model)
    with_experts = sum(layers_with_experts(model))
    matrices = 3 if model["swiglu"] else 2
    inner = ffn_hidden_size(model) * (layers - with_experts) + _experts(model) * with_experts
    linear = layers * projections + hidden * matrices * inner + hidden * size(model, "padded_vocab_size")
    return _TRAINED * (linear + layers * scores * sequence)


def _experts(model: Model) -> int:
    """Features of the experts that a token passes through."""
    if not size(model, "num_experts", 0):
        return 0
    routed = size(model, "moe_ffn_hidden_size", ffn_hidden_size(model)) * size(model, "moe_router_topk")
    return routed + size(model, "moe_shared_expert_intermediate_size", 0)


def _attention(model: Model) -> tuple[int, float]:
    """Multiplications for a token of the projections, and of the scores for each token of the sequence."""
    hidden, heads = size(model, "hidden_size"), size(model, "num_attention_heads")
    head = size(model, "kv_channels", hidden // heads)
    grouped = model["group_query_attention"] and model["num_query_groups"] is not None
    query = heads * head
    other = (size(model, "num_query_groups") if grouped else heads) * head
    return hidden * (query + 2 * other) + query * hidden, query


def _latent_attention(model: Model) -> tuple[int, float]:
    hidden, heads = size(model, "hidden_size"), size(model, "num_attention_heads")
    plain, rotated, value = (size(model, name) for name in ("qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"))
    rank, query_rank = size(model, "kv_lora_rank"), size(model, "q_lora_rank", 0)
    queries = heads * (plain + rotated)
    projections = query_rank * (hidden + queries + 1) if query_rank else hidden * queries
    projections += rank * (hidden + heads * (plain + value) + 1) + hidden * rotated + heads * value * hidden
    return projections, (queries + heads * value) / 2
