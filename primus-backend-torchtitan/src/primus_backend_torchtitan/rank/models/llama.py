"""A dense Llama of any size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn
from torchtitan.distributed.pipeline_parallel import pipeline_llm
from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm
from torchtitan.models.common.config_utils import get_attention_config, make_gqa_config
from torchtitan.models.common.feed_forward import FeedForward
from torchtitan.models.common.param_init import skip_param_init
from torchtitan.models.llama3 import parallelize_llama
from torchtitan.models.llama3.model import Llama3Model, Llama3TransformerBlock
from torchtitan.models.llama3.state_dict_adapter import Llama3StateDictAdapter
from torchtitan.protocols.model_spec import ModelSpec

from primus_backend_torchtitan.architecture import ffn_hidden_size, size

Model = Mapping[str, Any]
Init = dict[str, Callable[..., Any]]


def llama(model: Model) -> ModelSpec:
    """The specification of the model that the portable parameters describe."""
    return ModelSpec(
        name="llama3",
        flavor="primus",
        model=_config(model),
        parallelize_fn=parallelize_llama,
        pipelining_fn=pipeline_llm,
        post_optimizer_build_fn=None,
        state_dict_adapter=Llama3StateDictAdapter,
    )


def _config(model: Model) -> Llama3Model.Config:
    hidden, rows = size(model, "hidden_size"), size(model, "padded_vocab_size")
    tied = not model["untie_embeddings_and_output_weights"]
    first: Init = {"weight": skip_param_init} if tied else _normal(model)
    return Llama3Model.Config(
        dim=hidden,
        vocab_size=rows,
        enable_weight_tying=tied,
        tok_embeddings=Embedding.Config(num_embeddings=rows, embedding_dim=hidden, param_init=first),
        norm=_norm(model),
        lm_head=Linear.Config(in_features=hidden, out_features=rows, param_init=_normal(model)),
        layers=[_layer(model) for _ in range(size(model, "num_layers"))],
    )


def _layer(model: Model) -> Llama3TransformerBlock.Config:
    hidden, heads = size(model, "hidden_size"), size(model, "num_attention_heads")
    head = size(model, "kv_channels", hidden // heads)
    return Llama3TransformerBlock.Config(
        attention_norm=_norm(model),
        ffn_norm=_norm(model),
        attention=make_gqa_config(
            dim=hidden,
            n_heads=heads,
            n_kv_heads=_groups(model),
            head_dim=head,
            wqkv_param_init=_normal(model),
            wo_param_init=_residual(model),
            inner_attention=get_attention_config(model["attention"]),
            fuse_qkv=model["fuse_qkv"],
            rope=_rope(model, head),
        ),
        feed_forward=_feed_forward(model),
    )


def _groups(model: Model) -> int:
    heads = size(model, "num_attention_heads")
    return heads if model["group_query_attention"] is False else size(model, "num_query_groups", heads)


def _feed_forward(model: Model) -> FeedForward.Config:
    hidden, inner = size(model, "hidden_size"), ffn_hidden_size(model)
    up = partial(Linear.Config, in_features=hidden, out_features=inner, param_init=_normal(model))
    return FeedForward.Config(
        w1=up(),
        w2=Linear.Config(in_features=inner, out_features=hidden, param_init=_residual(model)),
        w3=up(),
    )


def _rope(model: Model, head: int) -> ComplexRoPE.Config:
    return ComplexRoPE.Config(
        dim=head,
        max_seq_len=size(model, "max_position_embeddings"),
        theta=float(model["rotary_base"]),
        scaling="llama" if model["use_rope_scaling"] else "none",
        scaling_factor=float(model["rope_scaling_factor"]),
    )


def _norm(model: Model) -> RMSNorm.Config:
    ones: Init = {"weight": nn.init.ones_}
    return RMSNorm.Config(normalized_shape=size(model, "hidden_size"), eps=model["layernorm_epsilon"], param_init=ones)


def _normal(model: Model) -> Init:
    """Weights that are drawn as Megatron draws them."""
    return {"weight": partial(nn.init.normal_, std=model["init_method_std"]), "bias": nn.init.zeros_}


def _residual(model: Model) -> Init:
    """The same for what is added to the residual stream: smaller, by the number of such additions."""
    std = model["init_method_std"] / math.sqrt(2.0 * size(model, "num_layers"))
    return {"weight": partial(nn.init.normal_, std=std), "bias": nn.init.zeros_}
