"""What Hugging Face's `transformers` calls the tensors and the sizes of a dense model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from primus_core.weights.architecture import Dense

CONFIG = "config.json"
EMBEDDING, NORM, OUTPUT = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"

_CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
_ALIKE = {"mistral": "llama"}
"""Other names of models that are the same."""
_ORIGINAL = 8192
"""Tokens that Llama 3.1's scaling starts from, in both back ends."""
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": _ORIGINAL}


@frozen(kw_only=True)
class Difference:
    """Something that a config.json and an experiment say otherwise."""

    key: str
    theirs: object
    ours: object
    parameters: tuple[str, ...]
    """Portable names of what decides it in the experiment."""


def layer_tensors(model: Dense) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors of a layer, by their names within it, in the order of `transformers`."""
    queries, keys = model.heads * model.head_size, model.groups * model.head_size
    attention = {"q": queries, "k": keys, "v": keys}
    shapes: dict[str, tuple[int, ...]] = {"input_layernorm.weight": (model.hidden,)}
    for name, rows in attention.items():
        shapes[f"self_attn.{name}_proj.weight"] = (rows, model.hidden)
        if model.qkv_bias:
            shapes[f"self_attn.{name}_proj.bias"] = (rows,)
    shapes["self_attn.o_proj.weight"] = (model.hidden, queries)
    if model.qk_norm:
        shapes |= {f"self_attn.{name}_norm.weight": (model.head_size,) for name in "qk"}
    return {
        **shapes,
        "post_attention_layernorm.weight": (model.hidden,),
        "mlp.gate_proj.weight": (model.ffn_hidden, model.hidden),
        "mlp.up_proj.weight": (model.ffn_hidden, model.hidden),
        "mlp.down_proj.weight": (model.hidden, model.ffn_hidden),
    }


def tensors(model: Dense) -> dict[str, tuple[int, ...]]:
    """Shapes of all tensors, by name; the embedding without its padding."""
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (model.vocabulary, model.hidden)}
    layer = layer_tensors(model)
    for number in range(model.layers):
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    shapes[NORM] = (model.hidden,)
    return shapes if model.tied else {**shapes, OUTPUT: (model.vocabulary, model.hidden)}


def model_type(model: Dense) -> str:
    """What `transformers` calls the kind of the model."""
    return "qwen2" if model.qkv_bias else "qwen3" if model.qk_norm else "llama"


def config_of(model: Dense, dtype: str) -> dict[str, object]:
    """The content of a config.json, which `transformers` of any version reads.

    Args:
        dtype: of the weights, by torch's name.
    """
    kind = model_type(model)
    return {
        "architectures": [_CLASSES[kind]],
        "model_type": kind,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "head_dim": model.head_size,
        "hidden_act": "silu",
        "hidden_size": model.hidden,
        "initializer_range": model.init_std,
        "intermediate_size": model.ffn_hidden,
        "max_position_embeddings": model.positions,
        "num_attention_heads": model.heads,
        "num_hidden_layers": model.layers,
        "num_key_value_heads": model.groups,
        "rms_norm_eps": model.epsilon,
        "rope_scaling": _scaling(model),
        "rope_theta": model.theta,
        "tie_word_embeddings": model.tied,
        "torch_dtype": dtype,
        "use_cache": True,
        "vocab_size": model.vocabulary,
    }


def differences(config: Mapping[str, Any], model: Dense) -> Iterator[Difference]:
    """Where a config.json contradicts the experiment's model; what it does not say is as `transformers` has it."""
    yield from _kind(config, model)
    heads = config.get("num_attention_heads")
    for key, theirs, ours, *parameters in (
        ("num_hidden_layers", config.get("num_hidden_layers"), model.layers, "num_layers"),
        ("hidden_size", config.get("hidden_size"), model.hidden, "hidden_size"),
        ("intermediate_size", config.get("intermediate_size"), model.ffn_hidden, "ffn_hidden_size"),
        ("num_attention_heads", heads, model.heads, "num_attention_heads"),
        ("num_key_value_heads", config.get("num_key_value_heads") or heads, model.groups, *_GROUPS),
        ("head_dim", _head_size(config), model.head_size, "kv_channels"),
        ("rms_norm_eps", config.get("rms_norm_eps", 1e-6), model.epsilon, "layernorm_epsilon"),
        ("rope_theta", _rope(config).get("rope_theta", 10000.0), model.theta, "rotary_base"),
        ("rope_scaling", _stretched(config), _scaling(model), "use_rope_scaling", "rope_scaling_factor"),
        ("tie_word_embeddings", bool(config.get("tie_word_embeddings", False)), model.tied, _UNTIED),
        ("hidden_act", config.get("hidden_act", "silu"), "silu", "swiglu"),
        ("sliding_window", _window(config), None, "window_size"),
    ):
        if theirs != ours:
            yield Difference(key=key, theirs=theirs, ours=ours, parameters=tuple(parameters))
    rows = config.get("vocab_size")
    if not isinstance(rows, int) or not model.vocabulary <= rows <= model.rows:
        yield Difference(key="vocab_size", theirs=rows, ours=model.vocabulary, parameters=("vocab_size",))


_GROUPS = ("num_query_groups", "group_query_attention")
_UNTIED = "untie_embeddings_and_output_weights"


def _kind(config: Mapping[str, Any], model: Dense) -> Iterator[Difference]:
    theirs, ours = config.get("model_type"), model_type(model)
    if _ALIKE.get(str(theirs), theirs) != ours:
        yield Difference(
            key="model_type", theirs=theirs, ours=ours, parameters=("add_qkv_bias", "qk_layernorm", "num_experts")
        )
    for key in ("attention_bias", "mlp_bias"):
        # Qwen 2.5 has its bias without saying so.
        if config.get(key) and not (key == "attention_bias" and ours == "qwen2"):
            yield Difference(key=key, theirs=True, ours=False, parameters=("add_bias_linear", "add_qkv_bias"))


def _head_size(config: Mapping[str, Any]) -> object:
    told, heads, hidden = (config.get(key) for key in ("head_dim", "num_attention_heads", "hidden_size"))
    if told is not None or not isinstance(heads, int) or not isinstance(hidden, int) or heads < 1:
        return told
    return 128 if config.get("model_type") == "qwen3" else hidden // heads


def _rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Version 5 of `transformers` has one map where the versions before had two keys."""
    told = config.get("rope_parameters")
    if isinstance(told, dict):
        return told
    scaling = config.get("rope_scaling")
    theta = {"rope_theta": config["rope_theta"]} if config.get("rope_theta") is not None else {}
    return {**(scaling if isinstance(scaling, dict) else {}), **theta}


def _stretched(config: Mapping[str, Any]) -> object:
    """None for plain frequencies; what is not Llama 3.1's way is told as it is."""
    rope = {key: value for key, value in _rope(config).items() if key != "rope_theta"}
    kind = rope.pop("rope_type", rope.pop("type", "default"))
    rope.pop("type", None)
    return None if kind in ("default", None) else {"rope_type": kind, **rope}


def _scaling(model: Dense) -> dict[str, object] | None:
    return None if model.rope_factor is None else {"rope_type": "llama3", "factor": model.rope_factor, **_LLAMA3}


def _window(config: Mapping[str, Any]) -> object:
    """Qwen 2.5 and 3 name a window which they only use where they say so."""
    qwen = str(config.get("model_type")).startswith("qwen")
    return config.get("sliding_window") if not qwen or config.get("use_sliding_window") else None
