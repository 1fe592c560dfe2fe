"""Small models as Hugging Face folders, and the portable parameters of the same models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from primus_core.experiment import Value
from primus_core.plan import RunPlan
from primus_core.weights import huggingface
from primus_core.weights.architecture import Dense, dense
from tests.megatron import experiments as megatron
from tests.torchtitan import experiments as torchtitan

Params = dict[str, Value]
BOTH = ("megatron", "torchtitan")

MODEL: Params = {
    "num_layers": 2,
    "hidden_size": 64,
    "ffn_hidden_size": 128,
    "num_attention_heads": 4,
    "num_query_groups": 2,
    "group_query_attention": True,
    "swiglu": True,
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "rotary_base": 50000,
    "layernorm_epsilon": 1e-5,
    "add_bias_linear": False,
    "add_qkv_bias": False,
    "qk_layernorm": False,
    "untie_embeddings_and_output_weights": True,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "vocab_size": 250,
    "max_position_embeddings": 64,
}
KINDS: dict[str, Params] = {
    "llama": {},
    "llama stretched": {"use_rope_scaling": True, "rope_scaling_factor": 4.0},
    "llama tied": {"untie_embeddings_and_output_weights": False},
    "qwen2": {"add_qkv_bias": True, "layernorm_epsilon": 1e-6},
    "qwen3": {"qk_layernorm": True, "kv_channels": 32, "untie_embeddings_and_output_weights": False},
}
"""What differs from the model above."""

TRAINING: Params = {
    "seq_length": 32,
    "micro_batch_size": 2,
    "global_batch_size": 8,
    "train_iters": 3,
    "lr": 1e-2,
    "min_lr": 1e-3,
    "lr_decay_style": "cosine",
    "weight_decay": 0.1,
    "bf16": False,
    "mock_data": True,
    "seed": 1234,
}
"""Portable parameters of a short training."""

FROZEN: Params = {"lr": 0.0, "min_lr": 0.0, "weight_decay": 0.0}


def model_of(kind: str) -> Dense:
    """The sizes of one of the kinds, without padding."""
    rows = {"padded_vocab_size": 250, "init_method_std": 0.02, "rope_scaling_factor": 8.0}
    return dense({**rows, **MODEL, **KINDS[kind]})


def write_folder(folder: Path, kind: str, *, shards: int = 1, dtype: Any = np.float32) -> Path:
    """Weights unlike any initialization: norms differ from 1, biases from 0, and no two parts are alike."""
    random, model = np.random.default_rng(11), model_of(kind)
    tensors = {}
    for name, shape in huggingface.tensors(model).items():
        scale = 0.2 if len(shape) == 1 else 0.5 if "embed" in name else shape[1] ** -0.5
        offset = 1 if name.endswith("norm.weight") else 0
        tensors[name] = (random.standard_normal(shape) * scale + offset).astype(dtype)
    folder.mkdir(parents=True)
    write_tensors(folder, tensors, shards)
    config = huggingface.config_of(model, np.dtype(dtype).name)
    (folder / huggingface.CONFIG).write_text(json.dumps(config))
    return folder


def write_tensors(folder: Path, tensors: dict[str, Any], shards: int) -> None:
    """In one file without an index, or in several with one."""
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return
    places = {
        name: f"model-{number % shards + 1:05d}-of-{shards:05d}.safetensors" for number, name in enumerate(tensors)
    }
    for file in set(places.values()):
        save_file({name: tensors[name] for name in tensors if places[name] == file}, folder / file)
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def read_tensors(folder: Path) -> dict[str, Any]:
    """All tensors of a folder, as numpy has them."""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= load_file(path)
    return found


def plan_of(framework: str, params: Params, world: int, workspace: Path, settings: Params) -> RunPlan:
    host = megatron.HOST if framework == "megatron" else torchtitan.HOST
    return host.plan_of(params, ranks=world, workspace=str(workspace), settings=settings)


def begun(kind: str, weights: Path, **params: Value) -> Params:
    return {**MODEL, **KINDS[kind], **TRAINING, "load_hf": str(weights), **params}
