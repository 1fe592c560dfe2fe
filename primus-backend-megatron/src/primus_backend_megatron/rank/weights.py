"""Megatron's model with the weights of a Hugging Face folder: each rank reads its own share."""

from __future__ import annotations

from typing import Any

import torch
from megatron.core import parallel_state

from primus_backend_megatron.weights import LAYERS, model_values, weight
from primus_core.errors import RunError
from primus_core.plan import RunPlan
from primus_core.tensors.source import Source
from primus_core.weights.architecture import Dense, dense


def fill(chunks: list[Any], plan: RunPlan, folder: str) -> list[Any]:
    """Give the parts of the model that this rank has the weights of a folder, before anything wraps them."""
    model = dense(model_values(plan))
    with Source(folder) as source, torch.no_grad():
        for chunk in chunks:
            _fill(chunk, model, source)
    return chunks


def _fill(chunk: Any, model: Dense, source: Source) -> None:
    rank = parallel_state.get_tensor_model_parallel_rank()
    ranks = parallel_state.get_tensor_model_parallel_world_size()
    numbers = {str(index): layer.layer_number - 1 for index, layer in enumerate(chunk.decoder.layers)}
    for name, parameter in chunk.named_parameters():
        own = weight(_global(name, numbers), model)
        if parameter.is_meta:
            raise RunError("load_hf needs a model in memory", remedy="set init_model_with_meta_device: false")
        parameter.copy_(source.tensor(own, rank, ranks))


def _global(name: str, numbers: dict[str, int]) -> str:
    """The name with the layer's number in the whole model: a stage counts its own layers from 0."""
    if not name.startswith(LAYERS):
        return name
    index, _, within = name.removeprefix(LAYERS).partition(".")
    return f"{LAYERS}{numbers[index]}.{within}"
