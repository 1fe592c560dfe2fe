"""Which models TorchTitan has the parts for: families of them, and what decides whether a model belongs to one."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from primus_core.experiment import Value

Accepted = Mapping[str, tuple[tuple[Value, ...], str]]
"""Parameters that decide what a model is made of: the values that a builder can make, and what that is."""

_EVERY: Accepted = {
    "position_embedding_type": (("rope",), "rotary positions"),
    "rotary_percent": ((1.0, None), "heads that are rotated as a whole"),
    "no_rope_freq": ((None,), "positions in every layer"),
    "normalization": (("RMSNorm",), "RMSNorm"),
    "layernorm_zero_centered_gamma": ((False, None), "normalizations whose weight is stored as it is"),
    "qk_l2_norm": ((False, None), "queries and keys that are not normalized without weights"),
    "attention_output_gate": ((False, None), "attention without an output gate"),
    "softmax_type": (("vanilla", None), "the plain softmax"),
    "window_size": ((None,), "attention to the whole sequence"),
    "swiglu": ((True,), "feed-forward blocks gated by SiLU"),
    "quick_geglu": ((False, None), "feed-forward blocks gated by SiLU"),
    "glu_linear_offset": ((0.0, None), "feed-forward blocks without an offset"),
    "activation_func_clamp_value": ((None,), "feed-forward blocks that are not clamped"),
    "add_bias_linear": ((False,), "linear layers without a bias"),
    "hidden_dropout": ((0.0,), "no dropout: TorchTitan has none"),
    "attention_dropout": ((0.0,), "no dropout: TorchTitan has none"),
    "mtp_num_layers": ((None, 0), "prediction of the next token only"),
}
_EXPERTS: Accepted = {
    "moe_shared_expert_gate": ((False, None), "shared experts without a gate"),
    "moe_router_score_function": (("softmax", "sigmoid", None), "scores by softmax or sigmoid"),
    "moe_router_dtype": ((None, "fp32"), "a router that computes in float32"),
    "moe_apply_probs_on_input": ((False, None), "scores that multiply what an expert returns"),
}
_UNSTRETCHED: Accepted = {
    "use_rope_scaling": ((False, None), "positions that are not stretched as Llama 3.1 does"),
}


@frozen(kw_only=True)
class Family:
    """Models that one builder makes."""

    builder: str
    """``module:function`` in the ranks, called with the architecture; makes a `ModelSpec` of TorchTitan's."""
    accepts: Accepted
    """Any other value is a model that it cannot make."""


LLAMA = Family(builder="primus_backend_torchtitan.rank.models.llama:llama", accepts=_EVERY)
"""Dense, with nothing beside projections in the attention."""
QWEN = Family(builder="primus_backend_torchtitan.rank.models.qwen:qwen", accepts={**_EVERY, **_EXPERTS, **_UNSTRETCHED})
"""Grouped-query attention whose projections may have a bias, and queries and keys a normalization; maybe experts."""
DEEPSEEK = Family(
    builder="primus_backend_torchtitan.rank.models.deepseek:deepseek",
    accepts={
        **_EVERY,
        **_EXPERTS,
        **_UNSTRETCHED,
        "qk_layernorm": ((True,), "compressed queries, keys and values that are normalized"),
        "add_qkv_bias": ((False, None), "latent attention without biases"),
    },
)
"""Latent attention; maybe experts."""


def family_of(model: Mapping[str, Value]) -> Family:
    """The family that a model belongs to by its parameters; whether its builder can make it is checked apart."""
    if model["multi_latent_attention"]:
        return DEEPSEEK
    return QWEN if model["num_experts"] or model["qk_layernorm"] or model["add_qkv_bias"] else LLAMA
