"""Which models can be exchanged with Hugging Face, and the sizes of such a model."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from primus_core.experiment import Value

_PLAIN: Mapping[str, tuple[tuple[Value, ...], str]] = {
    "position_embedding_type": (("rope",), "rotary positions"),
    "rotary_percent": ((1.0, 1, None), "heads that are rotated as a whole"),
    "rotary_interleaved": ((False, None), "features that are rotated by halves"),
    "rotary_seq_len_interpolation_factor": ((None, 1), "positions that are not interpolated"),
    "no_rope_freq": ((None,), "positions in every layer"),
    "normalization": (("RMSNorm",), "RMSNorm"),
    "layernorm_zero_centered_gamma": ((False, None), "normalizations whose weight is stored as it is"),
    "qk_l2_norm": ((False, None), "normalizations of queries and keys that have weights"),
    "attention_output_gate": ((False, None), "attention without an output gate"),
    "softmax_type": (("vanilla", None), "the plain softmax"),
    "window_size": ((None,), "attention to the whole sequence"),
    "swiglu": ((True,), "feed-forward blocks gated by SiLU"),
    "quick_geglu": ((False, None), "feed-forward blocks gated by SiLU"),
    "glu_linear_offset": ((0.0, 0, None), "feed-forward blocks without an offset"),
    "activation_func_clamp_value": ((None,), "feed-forward blocks that are not clamped"),
    "add_bias_linear": ((False,), "no bias but that of queries, keys and values"),
    "multi_latent_attention": ((False, None), "grouped-query attention"),
    "num_experts": ((None, 0), "dense layers"),
    "mtp_num_layers": ((None, 0), "prediction of the next token only"),
    "heterogeneous_layers_config_path": ((None,), "layers that are all alike"),
    "heterogeneous_layers_config_encoded_json": ((None,), "layers that are all alike"),
    "experimental_attention_variant": ((None,), "softmax attention"),
}
"""The values with which a model is a dense Llama or Qwen, and what such a model has; absent: the first or second."""


@frozen(kw_only=True)
class Dense:
    """A dense Llama (the bare one), Qwen 2.5 (``qkv_bias``) or Qwen 3 (``qk_norm``)."""

    layers: int
    hidden: int
    ffn_hidden: int
    heads: int
    groups: int
    """Key and value heads."""
    head_size: int
    vocabulary: int
    """Token ids."""
    rows: int
    """Of the embedding: the vocabulary, padded."""
    positions: int
    """Longest sequence in tokens."""
    tied: bool
    """The output projection is the embedding."""
    qkv_bias: bool
    qk_norm: bool
    epsilon: float
    theta: float
    """Base of the rotary frequencies."""
    rope_factor: float | None
    """By how much Llama 3.1's way stretches the rotary frequencies; None: not."""
    init_std: float = field(default=0.02)
    """Standard deviation of the initial weights."""


class NotDense(Exception):
    """A model of another kind, whose weights cannot be exchanged."""

    def __init__(self, parameters: Mapping[str, Value], words: str) -> None:
        super().__init__(words)
        self.parameters = parameters
        """Those that make it one."""
        self.words = words
        """What a model has whose weights can be exchanged."""


def dense(values: Mapping[str, Value]) -> Dense:
    """The model of a back end's parameters, by portable names, with its defaults filled in and ``padded_vocab_size``.

    Raises:
        NotDense: it is a mixture of experts, or has anything else that a dense Llama or Qwen has not.
    """
    _check(values)
    heads, hidden = _size(values, "num_attention_heads"), _size(values, "hidden_size")
    grouped = values.get("group_query_attention") is not False and values.get("num_query_groups") is not None
    return Dense(
        layers=_size(values, "num_layers"),
        hidden=hidden,
        ffn_hidden=_size(values, "ffn_hidden_size", int((4 * hidden * 2 / 3) / 64) * 64),
        heads=heads,
        groups=_size(values, "num_query_groups", heads) if grouped else heads,
        head_size=_size(values, "kv_channels", hidden // heads),
        vocabulary=_size(values, "vocab_size"),
        rows=_size(values, "padded_vocab_size"),
        positions=_size(values, "max_position_embeddings"),
        tied=not values["untie_embeddings_and_output_weights"],
        qkv_bias=bool(values.get("add_qkv_bias")),
        qk_norm=bool(values.get("qk_layernorm")),
        epsilon=_number(values, "layernorm_epsilon"),
        theta=_number(values, "rotary_base"),
        rope_factor=_number(values, "rope_scaling_factor") if values.get("use_rope_scaling") else None,
        init_std=_number(values, "init_method_std"),
    )


def _check(values: Mapping[str, Value]) -> None:
    other = {name: words for name, (plain, words) in _PLAIN.items() if values.get(name, plain[0]) not in plain}
    if values.get("add_qkv_bias") and values.get("qk_layernorm"):
        other["add_qkv_bias"] = "either a bias of queries, keys and values, or their normalization"
    if other:
        raise NotDense({name: values.get(name) for name in other}, "; ".join(dict.fromkeys(other.values())))


def _size(values: Mapping[str, Value], name: str, default: int | None = None) -> int:
    value = values.get(name)
    value = default if value is None else value
    if not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}")
    return value


def _number(values: Mapping[str, Value], name: str) -> float:
    value = values[name]
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name} is {value!r}")
    return float(value)
