"""Decoders with grouped-query attention and maybe experts: Qwen 2.5, Qwen 3, Mixtral and their like, of any size."""

from __future__ import annotations

from torchtitan.components.optimizer import register_moe_load_balancing_hook
from torchtitan.distributed.pipeline_parallel import pipeline_llm
from torchtitan.models.common import CosSinRoPE
from torchtitan.models.qwen3 import parallelize_qwen3
from torchtitan.models.qwen3.model import Qwen3Model, Qwen3TransformerBlock
from torchtitan.protocols.model_spec import ModelSpec

from primus_backend_torchtitan.architecture import layers_with_experts, size
from primus_backend_torchtitan.rank.models.adapters import QwenAdapter
from primus_backend_torchtitan.rank.models.experts import experts
from primus_backend_torchtitan.rank.models.parts import Model, ends, feed_forward, grouped_attention, norm


def qwen(model: Model) -> ModelSpec:
    """The specification of the model that the portable parameters describe."""
    return ModelSpec(
        name="qwen3",
        flavor="primus",
        model=Qwen3Model.Config(
            **ends(model), layers=[_layer(model, with_experts) for with_experts in layers_with_experts(model)]
        ),
        parallelize_fn=parallelize_qwen3,
        pipelining_fn=pipeline_llm,
        post_optimizer_build_fn=register_moe_load_balancing_hook,
        state_dict_adapter=QwenAdapter,
    )


def _layer(model: Model, with_experts: bool) -> Qwen3TransformerBlock.Config:
    hidden = size(model, "hidden_size")
    return Qwen3TransformerBlock.Config(
        attention_norm=norm(model, hidden),
        ffn_norm=norm(model, hidden),
        attention=grouped_attention(model, CosSinRoPE),
        feed_forward=None if with_experts else feed_forward(model),
        moe=experts(model) if with_experts else None,
    )
