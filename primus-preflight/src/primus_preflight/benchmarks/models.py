"""Dimensions of a model, from a preset's parameters."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.parameters.layerpattern import REMEDY, layers_with_experts
from primus_preflight.benchmarks.products import Dimensions

_OTHER_LAYERS = ("is_hybrid_model", "hybrid_layer_pattern", "lfm_layer_types", "linear_attention_freq")


def dimensions_of(name: str, given: Mapping[str, Value]) -> Dimensions:
    """The dimensions that a preset's portable parameters say.

    Raises:
        ConfigError: one is missing, or the model has layers that are no attention.
    """
    other = [key for key in _OTHER_LAYERS if given.get(key)]
    if other:
        raise ConfigError(
            f"{name} has layers without attention",
            why=f"the preset sets {', '.join(other)}, and their products are not known here",
            remedy="leave --model out and give dimensions, or measure single products with `benchmark gemm`",
        )
    hidden, heads = _number(name, given, "hidden_size"), _number(name, given, "num_attention_heads")
    latent = given.get("multi_latent_attention") is True
    experts = _number(name, given, "num_experts", 0)
    ffn_hidden = _number(name, given, "ffn_hidden_size", 4 * hidden)
    return Dimensions(
        hidden=hidden,
        ffn_hidden=ffn_hidden if not experts or _has_dense_layers(name, given) else 0,
        heads=heads,
        kv_heads=_number(name, given, "num_query_groups", heads) if given.get("group_query_attention") else heads,
        head_dim=_number(name, given, "qk_head_dim" if latent else "kv_channels", hidden // heads),
        vocabulary=_number(name, given, "vocab_size"),
        gated=given.get("swiglu") is True,
        latent=latent,
        q_lora_rank=_number(name, given, "q_lora_rank", 0) if latent else 0,
        kv_lora_rank=_number(name, given, "kv_lora_rank") if latent else 0,
        qk_rope_head_dim=_number(name, given, "qk_pos_emb_head_dim", 0) if latent else 0,
        v_head_dim=_number(name, given, "v_head_dim", 0) if latent else 0,
        experts=experts,
        experts_per_token=_number(name, given, "moe_router_topk", 2) if experts else 0,
        moe_ffn_hidden=_number(name, given, "moe_ffn_hidden_size", ffn_hidden) if experts else 0,
        shared_ffn_hidden=_number(name, given, "moe_shared_expert_intermediate_size", 0) if experts else 0,
    )


def _has_dense_layers(name: str, given: Mapping[str, Value]) -> bool:
    """Whether some layers of a mixture of experts have none."""
    try:
        return not all(layers_with_experts(given.get("moe_layer_freq"), _number(name, given, "num_layers")))
    except ValueError as error:
        raise ConfigError(f"moe_layer_freq of the preset {name}: {error}", remedy=REMEDY) from None


def _number(name: str, given: Mapping[str, Value], key: str, default: int | None = None) -> int:
    value = given.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"the preset {name} says no {key}", remedy="leave --model out and give dimensions")
    return value
