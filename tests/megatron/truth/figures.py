"""What is measured of the parts of a model that one rank holds, and of its optimizer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.optim import adam

_WRAPPED = re.compile(r"^(module\.)+")
_LAYER = re.compile(r"^(?:decoder|mtp)\.layers\.\d+\.(?:mtp_model_layer\.|transformer_layer\.)?")


def plain(name: str) -> str:
    """A parameter's name without wrappers and without its layer's number."""
    return _LAYER.sub("", _WRAPPED.sub("", name))


def counted(model: Iterable[Any]) -> dict[str, int]:
    """How often a parameter of a name and of these local sizes is there."""
    found: Counter[str] = Counter()
    for part in model:
        for name, parameter in part.named_parameters():
            found[f"{plain(name)}/{'x'.join(map(str, parameter.shape))}"] += 1
    return dict(found)


def stored(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the storages of tensors, each counted once."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


def weights(model: Iterable[Any]) -> int:
    """Bytes of what holds the parameters, padding included."""
    return stored(parameter.data for part in model for parameter in part.parameters())


def gradients(model: Iterable[Any]) -> int:
    """Bytes of the buffers that gradients are added in, padding included."""
    return stored(buffer.grad_data for part in model for buffer in (*part.buffers, *part.expert_parallel_buffers))


def buffers(model: Iterable[Any]) -> int:
    """Bytes of what the modules register beside parameters, by module: DDP has buffers of another kind."""
    return stored(buffer for part in model for buffer in part.module.buffers())


def states(optimizer: Any) -> dict[str, int]:
    """Bytes of the optimizer's own weights and of what it keeps after its first step, without counters of steps."""
    inner = list(_inner(optimizer))
    own = [tensor for one in inner for tensor in _main(one)]
    for one in inner:
        _step(one.optimizer)
    states = [state for one in inner for state in one.optimizer.state.values()]
    kept = [value for state in states for value in state.values() if torch.is_tensor(value) and value.dim()]
    return {
        "main": sum(tensor.numel() * tensor.element_size() for tensor in own),
        "moments": sum(tensor.numel() * tensor.element_size() for tensor in kept),
    }


def _inner(optimizer: Any) -> Iterator[Any]:
    if hasattr(optimizer, "chained_optimizers"):
        for one in optimizer.chained_optimizers:
            yield from _inner(one)
    elif not getattr(optimizer, "is_stub_optimizer", False):
        yield optimizer


def _main(optimizer: Any) -> Iterator[torch.Tensor]:
    for name in ("shard_fp32_from_float16_groups", "fp32_from_float16_groups"):
        for group in getattr(optimizer, name, ()):
            yield from (tensor for tensor in group if tensor is not None)


def _step(optimizer: Any) -> None:
    """A step from which the optimizer's state is made, without its arithmetic: tensors have no values here."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.empty_like(parameter)
    with mock.patch.object(adam, "adam", return_value=None) as arithmetic:
        optimizer.step()
    assert arithmetic.call_count == len(optimizer.param_groups)
    optimizer.zero_grad()
