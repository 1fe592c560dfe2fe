"""Weights of a model of any family as a Hugging Face folder, and Megatron's training from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from primus_core.contract import RankContext
from primus_core.plan import RunPlan
from tests.core.weights import layers_with_experts

FILE = "model-00001-of-00001.safetensors"
Shapes = Iterator[tuple[str, tuple[int, ...]]]


def write_weights(folder: Path, of: Mapping[str, Any], rows: int) -> Path:
    """Weights unlike any initialization, so that a wrong layout shows; also the bias of experts differs from zero."""
    import numpy as np
    from safetensors.numpy import save_file

    draw, tensors = np.random.default_rng(7), {}
    for name, shape in _shapes(of, rows):
        scale = 0.05 if "bias" in name else 0.2 if len(shape) == 1 else 0.5 if "embed" in name else shape[1] ** -0.5
        tensors[name] = (draw.standard_normal(shape) * scale + ("norm" in name)).astype(np.float32)
    folder.mkdir()
    save_file(tensors, folder / FILE, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, FILE)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def _shapes(of: Mapping[str, Any], rows: int) -> Shapes:
    hidden = of["hidden_size"]
    yield "model.embed_tokens.weight", (rows, hidden)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (rows, hidden)
    for number, mixed in enumerate(layers_with_experts(of)):
        attention = _latent(of) if of.get("multi_latent_attention") else _grouped(of)
        for name, shape in (*attention, *(_experts(of) if mixed else _gated("mlp", hidden, of["ffn_hidden_size"]))):
            yield f"model.layers.{number}.{name}", shape
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"model.layers.{number}.{norm}.weight", (hidden,)


def _grouped(of: Mapping[str, Any]) -> Shapes:
    hidden, heads = of["hidden_size"], of["num_attention_heads"]
    head = of.get("kv_channels") or hidden // heads
    for kind, count in (("q", heads), ("k", of["num_query_groups"]), ("v", of["num_query_groups"])):
        yield f"self_attn.{kind}_proj.weight", (count * head, hidden)
        if of.get("add_qkv_bias"):
            yield f"self_attn.{kind}_proj.bias", (count * head,)
        if of.get("qk_layernorm") and kind != "v":
            yield f"self_attn.{kind}_norm.weight", (head,)
    yield "self_attn.o_proj.weight", (hidden, heads * head)


def _latent(of: Mapping[str, Any]) -> Shapes:
    hidden, heads, turned = of["hidden_size"], of["num_attention_heads"], of["qk_pos_emb_head_dim"]
    query, latent, value = heads * (of["qk_head_dim"] + turned), of["kv_lora_rank"], of["v_head_dim"]
    if of["q_lora_rank"]:
        yield "self_attn.q_a_proj.weight", (of["q_lora_rank"], hidden)
        yield "self_attn.q_a_layernorm.weight", (of["q_lora_rank"],)
        yield "self_attn.q_b_proj.weight", (query, of["q_lora_rank"])
    else:
        yield "self_attn.q_proj.weight", (query, hidden)
    yield "self_attn.kv_a_proj_with_mqa.weight", (latent + turned, hidden)
    yield "self_attn.kv_a_layernorm.weight", (latent,)
    yield "self_attn.kv_b_proj.weight", (heads * (of["qk_head_dim"] + value), latent)
    yield "self_attn.o_proj.weight", (hidden, heads * value)


def _experts(of: Mapping[str, Any]) -> Shapes:
    hidden, count, shared = of["hidden_size"], of["num_experts"], of.get("moe_shared_expert_intermediate_size")
    yield "mlp.gate.weight", (count, hidden)
    if of.get("moe_router_enable_expert_bias"):
        yield "mlp.gate.e_score_correction_bias", (count,)
    for number in range(count):
        yield from _gated(f"mlp.experts.{number}", hidden, of["moe_ffn_hidden_size"])
    if shared:
        yield from _gated("mlp.shared_experts", hidden, shared)


def _gated(name: str, hidden: int, inner: int) -> Shapes:
    yield f"{name}.gate_proj.weight", (inner, hidden)
    yield f"{name}.up_proj.weight", (inner, hidden)
    yield f"{name}.down_proj.weight", (hidden, inner)


def megatron(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Train with Megatron, in one process, from the weights of the folder that was prepared."""
    from megatron.training import argument_utils

    from primus_backend_megatron.rank.train import run

    folder = str(rank.prepared("weights")["folder"])
    make_config = argument_utils.gpt_config_from_args

    def with_weights(args: Any) -> Any:
        config = make_config(args)
        config.pre_wrap_hooks.append(lambda models: [_filled(model, folder) for model in models])
        return config

    argument_utils.gpt_config_from_args = with_weights
    return run(plan, rank)


def _filled(model: Any, folder: str) -> Any:
    import torch
    from safetensors.torch import load_file

    tensors, groups = load_file(f"{folder}/{FILE}"), model.config.num_query_groups
    biases = [(name, buffer) for name, buffer in model.named_buffers() if name.endswith("expert_bias")]
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *biases):
            tensor.copy_(_part(name, tensors, groups))
    return model


_WHOLE = {
    "embedding.word_embeddings.weight": "model.embed_tokens.weight",
    "decoder.final_layernorm.weight": "model.norm.weight",
    "output_layer.weight": "lm_head.weight",
}
_RENAMED = {
    "self_attention.linear_proj.": "self_attn.o_proj.",
    "self_attention.q_layernorm.": "self_attn.q_norm.",
    "self_attention.k_layernorm.": "self_attn.k_norm.",
    "self_attention.kv_layernorm.": "self_attn.kv_a_layernorm.",
    "self_attention.linear_q_proj.": "self_attn.q_proj.",
    "self_attention.linear_q_down_proj.": "self_attn.q_a_proj.",
    "self_attention.linear_q_up_proj.": "self_attn.q_b_proj.",
    "self_attention.linear_kv_down_proj.": "self_attn.kv_a_proj_with_mqa.",
    "self_attention.linear_kv_up_proj.": "self_attn.kv_b_proj.",
    "pre_mlp_layernorm.": "post_attention_layernorm.",
    "mlp.router.expert_bias": "mlp.gate.e_score_correction_bias",
    "mlp.router.": "mlp.gate.",
    "experts.local_experts.": "experts.",
    "linear_fc2.": "down_proj.",
}


def _part(name: str, tensors: Mapping[str, Any], groups: int) -> Any:
    """What Megatron keeps under a name: one of Hugging Face's tensors, or several together."""
    import torch

    if name in _WHOLE:
        return tensors[_WHOLE[name]]
    layer, part = ".".join(["model", *name.split(".", 3)[1:3]]), name.split(".", 3)[3]
    for theirs, other in _RENAMED.items():
        part = part.replace(theirs, other)
    whole = f"{layer}.{part}"
    if "linear_qkv" in whole:
        heads = [tensors[whole.replace("self_attention.linear_qkv", f"self_attn.{kind}_proj")] for kind in "qkv"]
        return torch.cat([head.view(groups, -1, *head.shape[1:]) for head in heads], 1).reshape(-1, *heads[0].shape[1:])
    if "linear_fc1" in whole:
        return torch.cat([tensors[whole.replace("linear_fc1", kind)] for kind in ("gate_proj", "up_proj")])
    if whole not in tensors:
        whole = whole.replace("q_norm", "q_a_layernorm")
    return tensors[whole]
