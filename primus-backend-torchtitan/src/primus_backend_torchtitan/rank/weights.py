"""TorchTitan's model with the weights of a Hugging Face folder: each rank keeps its own shards."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torchtitan.components.checkpoint import ModelWrapper

from primus_backend_torchtitan.weights import model_values, weight
from primus_core.plan import RunPlan
from primus_core.tensors.source import Source
from primus_core.weights.architecture import dense


def fill(parts: list[Any], plan: RunPlan, folder: str) -> None:
    """Give the parts of the model that this rank has the weights of a folder.

    The state dictionary has other tensors than the model where projections are fused, so it is put back as a whole.
    """
    model, wrapper = dense(model_values(plan)), ModelWrapper(parts)
    state = wrapper.state_dict()
    with Source(folder) as source, torch.no_grad():
        for name, tensor in state.items():
            _shard(tensor).copy_(_own(tensor, source.tensor(weight(name, model))))
    wrapper.load_state_dict(state)


def _shard(tensor: Any) -> Any:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _own(tensor: Any, whole: Any) -> Any:
    """What a rank keeps of a whole tensor."""
    if not isinstance(tensor, DTensor):
        return whole
    shape, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return whole[tuple(slice(begin, begin + size) for begin, size in zip(offset, shape, strict=True))]
