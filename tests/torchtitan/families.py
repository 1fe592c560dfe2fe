"""Small models of each family, by portable names, beside those of `MOCK`."""

from __future__ import annotations

from primus_core.experiment import Value

BIASED: dict[str, Value] = {"add_qkv_bias": True}
"""Qwen 2.5."""
NORMALIZED: dict[str, Value] = {"qk_layernorm": True, "kv_channels": 32}
"""Qwen 3: heads are wider than their share of the residual stream."""
MIXTURE: dict[str, Value] = {
    **NORMALIZED,
    "num_experts": 4,
    "moe_router_topk": 2,
    "moe_ffn_hidden_size": 32,
    "moe_router_load_balancing_type": "aux_loss",
    "moe_aux_loss_coeff": 0.1,
}
"""Qwen 3 with experts in every layer, and a loss that balances them."""
LATENT: dict[str, Value] = {
    "multi_latent_attention": True,
    "group_query_attention": False,
    "num_query_groups": None,
    "qk_layernorm": True,
    "q_lora_rank": 32,
    "kv_lora_rank": 24,
    "qk_head_dim": 16,
    "qk_pos_emb_head_dim": 8,
    "v_head_dim": 12,
    "rotary_scaling_factor": 4.0,
    "yarn_original_max_position_embeddings": 16,
    "yarn_beta_fast": 2.0,
    "yarn_beta_slow": 0.5,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
"""DeepSeek's attention, stretched by YaRN from half of the sequence."""
DEEPSEEK: dict[str, Value] = {
    **LATENT,
    "num_experts": 8,
    "moe_layer_freq": "([0]*1+[1]*1)",
    "moe_ffn_hidden_size": 32,
    "moe_shared_expert_intermediate_size": 48,
    "moe_router_topk": 4,
    "moe_router_score_function": "sigmoid",
    "moe_router_enable_expert_bias": True,
    "moe_router_bias_update_rate": 0.05,
    "moe_router_topk_scaling_factor": 2.5,
    "moe_router_num_groups": 4,
    "moe_router_group_topk": 2,
    "moe_router_load_balancing_type": "seq_aux_loss",
    "moe_aux_loss_coeff": 0.1,
}
"""All parts of DeepSeek-V3: a dense layer, then routed and shared experts."""
UNCOMPRESSED: dict[str, Value] = {
    **LATENT,
    "q_lora_rank": None,
    "rope_type": "rope",
    "rotary_scaling_factor": 1.0,
    "num_experts": 4,
    "moe_router_topk": 2,
    "moe_router_pre_softmax": True,
    "moe_ffn_hidden_size": 32,
}
"""DeepSeek-V2-Lite: queries are not compressed, scores by softmax over all experts."""
FAMILIES: dict[str, dict[str, Value]] = {
    "biased": BIASED,
    "normalized": NORMALIZED,
    "mixture": MIXTURE,
    "deepseek": DEEPSEEK,
    "uncompressed": UNCOMPRESSED,
}
