"""Decoders with latent attention and maybe experts: DeepSeek V2 and V3, Kimi K2 and their like, of any size."""

from __future__ import annotations

from typing import Any

from torchtitan.components.optimizer import register_moe_load_balancing_hook
from torchtitan.distributed.pipeline_parallel import pipeline_llm
from torchtitan.models.common import ComplexRoPE
from torchtitan.models.common.config_utils import get_attention_config
from torchtitan.models.deepseek_v3 import DeepSeekV3StateDictAdapter, parallelize_deepseekv3
from torchtitan.models.deepseek_v3.model import Attention, DeepSeekV3Model, DeepSeekV3TransformerBlock
from torchtitan.protocols.model_spec import ModelSpec

from primus_backend_torchtitan.architecture import layers_with_experts, number, size
from primus_backend_torchtitan.rank.models.experts import experts
from primus_backend_torchtitan.rank.models.parts import Model, ends, feed_forward, linear, norm, residual


def deepseek(model: Model) -> ModelSpec:
    """The specification of the model that the portable parameters describe."""
    return ModelSpec(
        name="deepseek_v3",
        flavor="primus",
        model=DeepSeekV3Model.Config(
            **ends(model), layers=[_layer(model, with_experts) for with_experts in layers_with_experts(model)]
        ),
        parallelize_fn=parallelize_deepseekv3,
        pipelining_fn=pipeline_llm,
        post_optimizer_build_fn=register_moe_load_balancing_hook,
        state_dict_adapter=DeepSeekV3StateDictAdapter,
    )


def _layer(model: Model, with_experts: bool) -> DeepSeekV3TransformerBlock.Config:
    hidden = size(model, "hidden_size")
    return DeepSeekV3TransformerBlock.Config(
        attention_norm=norm(model, hidden),
        ffn_norm=norm(model, hidden),
        attention=_attention(model),
        feed_forward=None if with_experts else feed_forward(model),
        moe=experts(model) if with_experts else None,
    )


def _attention(model: Model) -> Attention.Config:
    hidden, heads, latent = (size(model, name) for name in ("hidden_size", "num_attention_heads", "kv_lora_rank"))
    plain, turned, value = (size(model, name) for name in ("qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"))
    return Attention.Config(
        dim=hidden,
        n_heads=heads,
        **_queries(model, heads * (plain + turned)),
        wkv_a=linear(model, hidden, latent + turned),
        kv_norm=norm(model, latent),
        wkv_b=linear(model, latent, heads * (plain + value)),
        wo=linear(model, heads * value, hidden, residual(model)),
        kv_lora_rank=latent,
        qk_nope_head_dim=plain,
        qk_rope_head_dim=turned,
        v_head_dim=value,
        rope=_rope(model, turned),
        inner_attention=get_attention_config(model["attention"]),
        mscale=number(model, "mscale_all_dim", 0.0),
    )


def _queries(model: Model, width: int) -> dict[str, Any]:
    """The fields for queries, compressed or not."""
    hidden, latent = size(model, "hidden_size"), size(model, "q_lora_rank", 0)
    if not latent:
        # TorchTitan asks for a normalization even where it builds none.
        return {"wq": linear(model, hidden, width), "q_norm": norm(model, 1)}
    return {
        "q_lora_rank": latent,
        "wq_a": linear(model, hidden, latent),
        "q_norm": norm(model, latent),
        "wq_b": linear(model, latent, width),
    }


def _rope(model: Model, width: int) -> ComplexRoPE.Config:
    """Rotation of neighbouring features, stretched by YaRN unless `rope_type` says otherwise."""
    return ComplexRoPE.Config(
        dim=width,
        max_seq_len=size(model, "max_position_embeddings"),
        theta=float(model["rotary_base"]),
        scaling="none" if model["rope_type"] == "rope" else "yarn",
        rope_factor=number(model, "rotary_scaling_factor", 1.0),
        original_seq_len=size(model, "yarn_original_max_position_embeddings", 4096),
        beta_fast=number(model, "yarn_beta_fast", 32.0),
        beta_slow=number(model, "yarn_beta_slow", 1.0),
        truncate=model["yarn_correction_range_round_to_int"] is not False,
    )
