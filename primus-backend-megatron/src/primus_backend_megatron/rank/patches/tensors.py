"""Tensors that Megatron asks for on "cuda" are made on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _device

from primus_backend_megatron.rank.patches.torch_cuda import CPU

Function = Callable[..., Any]


def is_cuda(device: object) -> bool:
    """A device, or the name of one, that is on a GPU."""
    kind = device.type if isinstance(device, torch.device) else device
    return isinstance(kind, str) and kind.partition(":")[0] == "cuda"


def on_cpu(original: Function) -> Function:
    """Factory for every function that makes a tensor: ``device="cuda"`` means the CPU, and nothing is pinned."""
    # torch remembers at its first use which functions `with torch.device(...)` redirects: let it see the real ones.
    _device._device_constructors()

    @functools.wraps(original)
    def make(*args: Any, **options: Any) -> Any:
        if options:
            if is_cuda(options.get("device")):
                options["device"] = CPU
            options.pop("pin_memory", None)
        return original(*args, **options)

    return make


def itself(original: Function) -> Function:
    """Factory for `Tensor.cuda`: it is where it should be."""

    @functools.wraps(original)
    def stay(self: Any, *args: object, **options: object) -> Any:
        return self

    return stay


def cuda_type_name(original: Function) -> Function:
    """Factory for `Tensor.type`: Megatron's optimizers choose by the names of CUDA's tensor types."""

    @functools.wraps(original)
    def type_(self: torch.Tensor, dtype: Any = None, *args: Any, **options: Any) -> Any:
        if dtype is not None:
            return original(self, dtype, *args, **options)
        name = original(self)
        return name if name.startswith("torch.cuda.") else f"torch.cuda.{name.removeprefix('torch.')}"

    return type_
