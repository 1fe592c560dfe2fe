"""The portable parameters of a model, as the host and the ranks read them. No torch here."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from primus_core.experiment import Value

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
    "num_experts": None,
    "mtp_num_layers": None,
    "attention": "flex",
    "converters": [],
    "fuse_qkv": True,
}
"""What a portable parameter is where nobody sets it: the same for every back end, and so Megatron's own default."""

LLAMA: Mapping[str, tuple[tuple[Value, ...], str]] = {
    "position_embedding_type": (("rope",), "rotary positions"),
    "rotary_percent": ((1.0, None), "heads that are rotated as a whole"),
    "no_rope_freq": ((None,), "positions in every layer"),
    "normalization": (("RMSNorm",), "RMSNorm"),
    "layernorm_zero_centered_gamma": ((False, None), "normalizations whose weight is stored as it is"),
    "qk_layernorm": ((False, None), "queries and keys that are not normalized"),
    "qk_l2_norm": ((False, None), "queries and keys that are not normalized"),
    "attention_output_gate": ((False, None), "attention without an output gate"),
    "softmax_type": (("vanilla", None), "the plain softmax"),
    "window_size": ((None,), "attention to the whole sequence"),
    "swiglu": ((True,), "feed-forward blocks gated by SiLU"),
    "quick_geglu": ((False, None), "feed-forward blocks gated by SiLU"),
    "glu_linear_offset": ((0.0, None), "feed-forward blocks without an offset"),
    "activation_func_clamp_value": ((None,), "feed-forward blocks that are not clamped"),
    "add_bias_linear": ((False,), "linear layers without a bias"),
    "add_qkv_bias": ((False, None), "linear layers without a bias"),
    "hidden_dropout": ((0.0,), "no dropout: TorchTitan has none"),
    "attention_dropout": ((0.0,), "no dropout: TorchTitan has none"),
    "multi_latent_attention": ((False, None), "grouped-query attention"),
    "num_experts": ((None, 0), "dense layers"),
    "mtp_num_layers": ((None, 0), "prediction of the next token only"),
}
"""The values with which a model is a dense Llama, and what such a model has."""


@frozen(kw_only=True)
class Family:
    """Models that one builder makes."""

    builder: str
    """``module:function`` in the ranks, called with the architecture; makes a `ModelSpec` of TorchTitan's."""
    accepts: Mapping[str, tuple[tuple[Value, ...], str]]
    """Parameters that decide what a model is made of: the values that the builder can make, and what that is."""


FAMILIES: Mapping[str, Family] = {
    "llama": Family(builder="primus_backend_torchtitan.rank.models.llama:llama", accepts=LLAMA),
}


def family_of(model: Mapping[str, Value]) -> Family:
    """The family that a model belongs to by its parameters; whether its builder can make it is checked apart."""
    return FAMILIES["llama"]


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
