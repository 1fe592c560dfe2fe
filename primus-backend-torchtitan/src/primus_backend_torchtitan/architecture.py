"""The portable parameters of a model, as the host and the ranks read them. No torch here."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.experiment import Value
from primus_core.parameters import layerpattern

Model = Mapping[str, Value]
"""The architecture by portable names, with defaults filled in."""

DEFAULTS: Mapping[str, Value] = {
    "kv_channels": None,
    "ffn_hidden_size": None,
    "group_query_attention": None,
    "num_query_groups": None,
    "position_embedding_type": "learned_absolute",
    "rotary_base": 10000,
    "rotary_percent": 1.0,
    "use_rope_scaling": False,
    "rope_scaling_factor": 8.0,
    "normalization": "LayerNorm",
    "layernorm_epsilon": 1e-5,
    "layernorm_zero_centered_gamma": False,
    "qk_layernorm": False,
    "qk_l2_norm": False,
    "attention_output_gate": False,
    "softmax_type": "vanilla",
    "window_size": None,
    "no_rope_freq": None,
    "swiglu": False,
    "quick_geglu": False,
    "glu_linear_offset": 0.0,
    "activation_func_clamp_value": None,
    "add_bias_linear": True,
    "add_qkv_bias": False,
    "untie_embeddings_and_output_weights": False,
    "hidden_dropout": 0.1,
    "attention_dropout": 0.1,
    "init_method_std": 0.02,
    "multi_latent_attention": False,
    "rope_type": None,
    "q_lora_rank": None,
    "kv_lora_rank": 32,
    "qk_head_dim": 128,
    "qk_pos_emb_head_dim": 64,
    "v_head_dim": 128,
    "rotary_scaling_factor": 1.0,
    "yarn_original_max_position_embeddings": None,
    "yarn_beta_fast": None,
    "yarn_beta_slow": None,
    "yarn_correction_range_round_to_int": None,
    "mscale": 1.0,
    "mscale_all_dim": 0.0,
    "num_experts": None,
    "moe_ffn_hidden_size": None,
    "moe_layer_freq": 1,
    "moe_shared_expert_intermediate_size": None,
    "moe_shared_expert_gate": False,
    "moe_router_topk": 2,
    "moe_router_score_function": "softmax",
    "moe_router_pre_softmax": False,
    "moe_router_topk_scaling_factor": None,
    "moe_router_num_groups": None,
    "moe_router_group_topk": None,
    "moe_router_enable_expert_bias": False,
    "moe_router_bias_update_rate": 1e-3,
    "moe_router_load_balancing_type": ["aux_loss"],
    "moe_aux_loss_coeff": [0.0],
    "moe_router_dtype": None,
    "moe_apply_probs_on_input": False,
    "mtp_num_layers": None,
    "attention": "flex",
    "converters": [],
    "fuse_qkv": True,
    "expert_dispatcher": "standard",
}
"""What a portable parameter is where nobody sets it: the same for every back end, and so Megatron's own default."""


def size(model: Mapping[str, Value], name: str, default: int | None = None) -> int:
    """A whole number, or the default where it is absent or null.

    Raises:
        TypeError: it is neither; the checks before have a fault.
    """
    value = model.get(name)
    value = default if value is None else value
    if not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}")
    return value


def ffn_hidden_size(model: Mapping[str, Value]) -> int:
    """Where it is not set, Megatron's own rule: with a gate 8/3 x hidden rounded down to a multiple of 64, else 4 x."""
    hidden = size(model, "hidden_size")
    return size(model, "ffn_hidden_size", int((4 * hidden * 2 / 3) / 64) * 64 if model.get("swiglu") else 4 * hidden)


def number(model: Mapping[str, Value], name: str, default: float) -> float:
    """A number, or the default where it is absent or null."""
    value = model.get(name)
    return float(value) if isinstance(value, (int, float)) else default


def layers_with_experts(model: Mapping[str, Value]) -> list[bool]:
    """For each layer whether it is a mixture of experts.

    Raises:
        ValueError: `moe_layer_freq` is no number, list or sum of repeated lists, or for another number of layers.
    """
    layers = size(model, "num_layers")
    if not size(model, "num_experts", 0):
        return [False] * layers
    return layerpattern.layers_with_experts(model.get("moe_layer_freq"), layers)


def balancing_losses(model: Mapping[str, Value]) -> dict[str, float]:
    """The losses that balance the load of experts, and their weights; those with a weight of 0 are none."""
    if not size(model, "num_experts", 0):
        return {}
    kinds, weights = _listed(model.get("moe_router_load_balancing_type")), _listed(model.get("moe_aux_loss_coeff"))
    pairs = zip(kinds, weights, strict=False)
    return {str(kind): float(weight) for kind, weight in pairs if isinstance(weight, (int, float)) and weight}


def _listed(value: Value) -> list[Value]:
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]
