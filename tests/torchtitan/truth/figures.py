"""What is measured of the parts of a model that one rank holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode


def counted(parts: Iterable[Any]) -> dict[str, int]:
    """How often a parameter of a name, without its layer's number, and of these local sizes is there."""
    found: Counter[str] = Counter()
    for part in parts:
        for name, parameter in part.named_parameters():
            found[f"{_plain(name)}/{'x'.join(map(str, _local(parameter).shape))}"] += 1
    return dict(found)


def order(parts: Iterable[Any]) -> list[str]:
    """Names of the parameters of the first layer there is, as they are registered."""
    for part in parts:
        for layer in part.layers.values():
            return [name for name, _ in layer.named_parameters()]
    return []


def _plain(name: str) -> str:
    return name.split(".", 2)[2] if name.startswith("layers.") else name


def _local(tensor: Any) -> Any:
    """A rank's part of a tensor."""
    return getattr(tensor, "_local_tensor", tensor)


def stored(tensors: Iterable[Any]) -> int:
    """Bytes of the storages of tensors, each counted once."""
    storages = [_local(tensor).untyped_storage() for tensor in tensors]
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


def parameters(parts: Iterable[Any]) -> list[Any]:
    """Of all parts."""
    return [parameter for part in parts for parameter in part.parameters()]


def buffers(parts: Iterable[Any]) -> list[Any]:
    """Of all parts."""
    return [buffer for part in parts for buffer in part.buffers()]


def moments(config: Any, parts: list[Any]) -> int:
    """Bytes of what the optimizer keeps after its first step, without its counters of steps."""
    optimizers = config.optimizer.build(model_parts=parts).optimizers
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["fused"] = group["foreach"] = False
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
    states = [state for optimizer in optimizers for state in optimizer.state.values()]
    tensors = [value for state in states for value in state.values() if torch.is_tensor(value) and value.dim()]
    return sum(_local(tensor).numel() * tensor.element_size() for tensor in tensors)


def sharded(parts: list[Any], tied: Callable[[Any], Any]) -> dict[str, int]:
    """Bytes of what FSDP itself allocates as it gathers every weight once and reduces a gradient of each.

    Args:
        tied: what makes an embedding and an output one tensor that have become two.
    """
    gathered = sent = 0
    with FakeTensorMode(allow_non_fake_inputs=True):
        for part in parts:
            tied(part.to_empty(device="cpu"))
            for group in _groups(part):
                gathered += _gather(group)
                sent += _reduce(group)
        gradients = stored([parameter.grad for parameter in parameters(parts)])
    return {"gathered": gathered, "reduced": sent, "gradients": gradients}


def _groups(part: Any) -> list[Any]:
    """Parameters that FSDP gathers together."""
    root = part._get_fsdp_state()
    root._lazy_init()
    return [group for state in root._state_ctx.all_states for group in state._fsdp_param_groups]


def _gather(group: Any) -> int:
    group.unshard()
    group.wait_for_unshard()
    return stored([output for parameter in group.fsdp_params for output in parameter.all_gather_outputs])


def _reduce(group: Any) -> int:
    """Bytes of the buffer that the gradients of a group are sent from."""
    for parameter in group.fsdp_params:
        parameter.unsharded_param.grad = torch.zeros_like(parameter.unsharded_param)
    group.post_backward()
    return stored([group.comm_ctx.reduce_scatter_states[-1].reduce_scatter_input])
