"""One small Llama as a Hugging Face folder, and what trains it with Megatron, for `test_parity.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from primus_core.contract import RankContext
from primus_core.experiment import Value
from primus_core.plan import RunPlan
from tests.torchtitan.experiments import MOCK

HIDDEN, INNER, HEAD, HEADS, GROUPS, LAYERS, ROWS = 64, 128, 16, 4, 2, 2, 256

TRAINING: dict[str, Value] = {
    **MOCK,
    "make_vocab_size_divisible_by": 128,
    "rotary_base": 10000,
    "layernorm_epsilon": 1e-5,
    "train_iters": 20,
    "optimizer": "adam",
    "lr": 3e-3,
    "min_lr": 3e-4,
    "lr_warmup_iters": 3,
    "weight_decay": 0.1,
    "adam_beta1": 0.9,
    "adam_beta2": 0.95,
    "adam_eps": 1e-8,
    "clip_grad": 1.0,
    "bf16": False,
}
"""Portable parameters only; warm-up, decay, weight decay and clipping all act."""


def write_weights(folder: Path) -> Path:
    """Weights unlike any initialization: norms differ from 1 and matrices are large, so that a wrong layout shows."""
    import numpy as np
    from safetensors.numpy import save_file

    random = np.random.default_rng(7)
    tensors = {}
    for name, shape in _shapes().items():
        scale = 0.2 if len(shape) == 1 else 0.5 if "embed" in name else shape[1] ** -0.5
        tensors[name] = (random.standard_normal(shape) * scale + (len(shape) == 1)).astype(np.float32)
    folder.mkdir()
    file = "model-00001-of-00001.safetensors"
    save_file(tensors, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, file)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def _shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (ROWS, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        "lm_head.weight": (ROWS, HIDDEN),
    }
    layer: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (HEADS * HEAD, HIDDEN),
        "self_attn.k_proj.weight": (GROUPS * HEAD, HIDDEN),
        "self_attn.v_proj.weight": (GROUPS * HEAD, HIDDEN),
        "self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD),
        "mlp.gate_proj.weight": (INNER, HIDDEN),
        "mlp.up_proj.weight": (INNER, HIDDEN),
        "mlp.down_proj.weight": (HIDDEN, INNER),
        "input_layernorm.weight": (HIDDEN,),
        "post_attention_layernorm.weight": (HIDDEN,),
    }
    for number in range(LAYERS):
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    return shapes


def megatron(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Train with Megatron from the weights of the folder that was prepared."""
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
    """A pipeline stage of Megatron's with this rank's part of the weights in it."""
    import torch
    from safetensors.torch import load_file

    tensors = load_file(f"{folder}/model-00001-of-00001.safetensors")
    offset = next((layer.layer_number - 1 for layer in model.decoder.layers), 0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(_part(name, tensors, offset))
    return model


def _part(name: str, tensors: Mapping[str, Any], offset: int) -> Any:
    """What Megatron keeps under a name: some of Hugging Face's tensors together, divided among ranks."""
    import torch

    whole = {
        "embedding.word_embeddings.weight": "model.embed_tokens.weight",
        "decoder.final_layernorm.weight": "model.norm.weight",
        "output_layer.weight": "lm_head.weight",
    }
    if name in whole:
        tensor = tensors[whole[name]]
        return tensor if tensor.ndim == 1 else _rows(tensor)
    _, _, number, part = name.split(".", 3)

    def theirs(key: str) -> Any:
        return tensors[f"model.layers.{int(number) + offset}.{key}.weight"]

    if part == "self_attention.linear_qkv.weight":
        heads = [theirs(f"self_attn.{key}_proj").view(GROUPS, -1, HIDDEN) for key in "qkv"]
        return _rows(torch.cat(heads, 1).reshape(-1, HIDDEN))
    if part == "mlp.linear_fc1.weight":
        return torch.cat([_rows(theirs("mlp.gate_proj")), _rows(theirs("mlp.up_proj"))])
    divided = {"self_attention.linear_proj.weight": "self_attn.o_proj", "mlp.linear_fc2.weight": "mlp.down_proj"}
    norms = {"input_layernorm.weight": "input_layernorm", "pre_mlp_layernorm.weight": "post_attention_layernorm"}
    return _share(theirs(divided[part]), 1) if part in divided else theirs(norms[part])


def _rows(tensor: Any) -> Any:
    return _share(tensor, 0)


def _share(tensor: Any, dimension: int) -> Any:
    from megatron.core import parallel_state

    ranks = parallel_state.get_tensor_model_parallel_world_size()
    return tensor.chunk(ranks, dimension)[parallel_state.get_tensor_model_parallel_rank()]
