"""How many weights a decoder has, by the portable names of its sizes. Written without a look at any back end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def parameter_count(of: Mapping[str, Any]) -> int:
    """Weights of a decoder: embedding, output, and in each layer attention, feed-forward or experts, and two norms."""
    hidden, layers = of["hidden_size"], of["num_layers"]
    with_experts = layers_with_experts(of)
    count = (1 + of["untie_embeddings_and_output_weights"]) * of["vocab_size"] * hidden + hidden
    for index in range(layers):
        count += (
            mixer(of, index)
            + (experts(of) if with_experts[index] else feed_forward(of, of["ffn_hidden_size"]))
            + 2 * hidden
        )
    return int(count)


def layers_with_experts(of: Mapping[str, Any]) -> list[bool]:
    """Which layers have experts: every N-th, or as a sum of repeated lists in text."""
    layers, freq = of["num_layers"], of.get("moe_layer_freq", 1)
    if not of.get("num_experts"):
        return [False] * layers
    if isinstance(freq, int):
        return [index % freq == 0 for index in range(layers)]
    whole = re.fullmatch(r"\((.*)\)(?:\*(\d+))?", freq)
    assert whole, freq
    parts = re.findall(r"\[([01])\](?:\*(\d+))?", whole[1])
    pattern = [one == "1" for one, times in parts for _ in range(int(times or 1))] * int(whole[2] or 1)
    assert len(pattern) == layers
    return pattern


def mixer(of: Mapping[str, Any], index: int) -> int:
    """What a layer has before its feed-forward block: attention, or what stands in its place."""
    linear, kinds = of.get("linear_attention_freq"), of.get("lfm_layer_types")
    if linear and (index + 1) % linear:
        return delta_net(of)
    if kinds and kinds[index] == "conv":
        return int(of["hidden_size"] * (4 * of["hidden_size"] + 3))
    return attention(of)


def attention(of: Mapping[str, Any]) -> int:
    if of.get("multi_latent_attention"):
        return latent_attention(of)
    hidden, heads = of["hidden_size"], of["num_attention_heads"]
    size = of.get("kv_channels") or hidden // heads
    query, groups = heads * size, of["num_query_groups"] if of["group_query_attention"] else heads
    incoming = query * (1 + of.get("attention_output_gate", False)) + 2 * groups * size
    count = hidden * incoming + query * hidden
    count += incoming if of["add_bias_linear"] or of.get("add_qkv_bias") else 0
    count += hidden if of["add_bias_linear"] else 0
    count += heads if of.get("softmax_type") == "learnable" else 0
    return int(count + (2 * size if of.get("qk_layernorm") else 0))


def latent_attention(of: Mapping[str, Any]) -> int:
    hidden, heads = of["hidden_size"], of["num_attention_heads"]
    keys_rank, queries_rank = of["kv_lora_rank"], of.get("q_lora_rank")
    plain, positions, values = of["qk_head_dim"], of["qk_pos_emb_head_dim"], of["v_head_dim"]
    query = heads * (plain + positions)
    queries = (hidden + query + 1) * queries_rank if queries_rank else hidden * query
    keys = hidden * (keys_rank + positions) + keys_rank * (heads * (plain + values) + 1)
    return int(queries + keys + heads * values * hidden)


def delta_net(of: Mapping[str, Any]) -> int:
    """Gated delta net: projections of queries, keys, values, gate and two numbers a head; convolution; output."""
    hidden, value_heads = of["hidden_size"], of["linear_num_value_heads"]
    keys = of["linear_num_key_heads"] * of["linear_key_head_dim"]
    values = value_heads * of["linear_value_head_dim"]
    incoming = hidden * (2 * keys + 2 * values + 2 * value_heads)
    convolution = (2 * keys + values) * of["linear_conv_kernel_dim"]
    return int(incoming + convolution + 2 * value_heads + of["linear_value_head_dim"] + values * hidden)


def feed_forward(of: Mapping[str, Any], inner: int) -> int:
    inputs = 1 + bool(of["swiglu"] or of.get("quick_geglu"))
    biases = inputs * inner + of["hidden_size"] if of["add_bias_linear"] else 0
    return int((inputs + 1) * of["hidden_size"] * inner + biases)


def experts(of: Mapping[str, Any]) -> int:
    """A layer's router, its experts and those that every token uses."""
    shared = of.get("moe_shared_expert_intermediate_size")
    gate = of["hidden_size"] if of.get("moe_shared_expert_gate") else 0
    router = of["num_experts"] * of["hidden_size"]
    return int(router + routed_experts(of) + gate + (feed_forward(of, shared) if shared else 0))


def routed_experts(of: Mapping[str, Any]) -> int:
    """What expert parallel ranks share of a layer."""
    return int(of["num_experts"] * feed_forward(of, of.get("moe_ffn_hidden_size") or of["ffn_hidden_size"]))
