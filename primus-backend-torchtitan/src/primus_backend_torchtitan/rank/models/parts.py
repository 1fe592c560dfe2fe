"""What models of all families are made of, from the portable parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from torch import nn
from torchtitan.models.common import Embedding, Linear, RMSNorm, RoPE
from torchtitan.models.common.attention import GQAttention
from torchtitan.models.common.config_utils import get_attention_config, make_gqa_config
from torchtitan.models.common.feed_forward import FeedForward
from torchtitan.models.common.param_init import skip_param_init

from primus_backend_torchtitan.architecture import ffn_hidden_size, size

Model: TypeAlias = Mapping[str, Any]
Init: TypeAlias = dict[str, Callable[..., Any]]


def ends(model: Model) -> dict[str, Any]:
    """The fields of a decoder's configuration other than its layers: embedding, last normalization, output."""
    hidden, rows = size(model, "hidden_size"), size(model, "padded_vocab_size")
    tied = not model["untie_embeddings_and_output_weights"]
    first: Init = {"weight": skip_param_init} if tied else normal(model)
    return {
        "dim": hidden,
        "vocab_size": rows,
        "enable_weight_tying": tied,
        "tok_embeddings": Embedding.Config(num_embeddings=rows, embedding_dim=hidden, param_init=first),
        "norm": norm(model, hidden),
        "lm_head": linear(model, hidden, rows),
    }


def grouped_attention(model: Model, rope: type[RoPE]) -> GQAttention.Config:
    """Grouped-query attention, with or without biases and normalizations."""
    hidden, heads = size(model, "hidden_size"), size(model, "num_attention_heads")
    head = size(model, "kv_channels", hidden // heads)
    attention: GQAttention.Config = make_gqa_config(
        dim=hidden,
        n_heads=heads,
        n_kv_heads=heads if model["group_query_attention"] is False else size(model, "num_query_groups", heads),
        head_dim=head,
        wqkv_param_init=normal(model),
        wo_param_init=residual(model),
        inner_attention=get_attention_config(model["attention"]),
        fuse_qkv=model["fuse_qkv"],
        rope=rope.Config(
            dim=head,
            max_seq_len=size(model, "max_position_embeddings"),
            theta=float(model["rotary_base"]),
            scaling="llama" if model["use_rope_scaling"] else "none",
            scaling_factor=float(model["rope_scaling_factor"]),
        ),
        qk_norm=norm(model, head) if model["qk_layernorm"] else None,
    )
    if model["add_qkv_bias"]:
        projections = ("wqkv",) if model["fuse_qkv"] else ("wq", "wkv")
        for projection in projections:
            getattr(attention.qkv_linear, projection).bias = True
    return attention


def feed_forward(model: Model, inner: int | None = None) -> FeedForward.Config:
    """A block gated by SiLU; of the dense layers where no inner width is given."""
    hidden = size(model, "hidden_size")
    inner = ffn_hidden_size(model) if inner is None else inner
    return FeedForward.Config(
        w1=linear(model, hidden, inner),
        w2=linear(model, inner, hidden, residual(model)),
        w3=linear(model, hidden, inner),
    )


def linear(model: Model, incoming: int, outgoing: int, init: Init | None = None) -> Linear.Config:
    """Without a bias."""
    return Linear.Config(in_features=incoming, out_features=outgoing, param_init=init or normal(model))


def norm(model: Model, width: int) -> RMSNorm.Config:
    """RMSNorm over so many features."""
    ones: Init = {"weight": nn.init.ones_}
    return RMSNorm.Config(normalized_shape=width, eps=model["layernorm_epsilon"], param_init=ones)


def normal(model: Model) -> Init:
    """Weights that are drawn as Megatron draws them."""
    return {"weight": partial(nn.init.normal_, std=model["init_method_std"]), "bias": nn.init.zeros_}


def residual(model: Model) -> Init:
    """The same for what is added to the residual stream: smaller, by the number of such additions."""
    std = model["init_method_std"] / math.sqrt(2.0 * size(model, "num_layers"))
    return {"weight": partial(nn.init.normal_, std=std), "bias": nn.init.zeros_}
