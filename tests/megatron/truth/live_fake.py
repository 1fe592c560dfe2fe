"""What a training step asks of tensors and that tensors without values cannot answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from torch import distributed
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.device_mesh import DeviceMesh
from torch.utils._python_dispatch import _disable_current_modes

from tests.truth.live import Live


class _Together:
    """Collectives of one group started together, by a process group in which nobody answers."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.works: list[Any] = []

    def __enter__(self) -> _Together:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def wait(self) -> None:
        """They have ended."""


def _answer(owner: Any, name: str, value: Any) -> Any:
    original = getattr(owner, name)

    def read(self: Any) -> Any:
        return value if isinstance(self, FakeTensor) and self.constant is None else original(self)

    return mock.patch.object(owner, name, read)


def _same_everywhere(found: list[Any], own: Any, group: Any = None) -> None:
    found[:] = [own] * len(found)


def _in(dtype: torch.dtype) -> Any:
    """`Module.bfloat16` or `Module.half` by new parameters: a fake one cannot be exchanged in place."""

    def changed(self: Any) -> Any:
        for module in self.modules():
            for name, own in module._parameters.items():
                if own is not None and own.is_floating_point():
                    new = torch.nn.Parameter(own.detach().to(dtype), requires_grad=own.requires_grad)
                    new.__dict__.update(own.__dict__)
                    module._parameters[name] = new
            for name, own in module._buffers.items():
                if own is not None and own.is_floating_point():
                    module._buffers[name] = own.to(dtype)
        return self

    return changed


def _as_it_is(self: Any, device: object = None) -> Any:
    return self


@contextlib.contextmanager
def _no_fork(self: Any, name: str = "") -> Iterator[None]:
    """`CudaRNGStatesTracker.fork` where nothing is drawn."""
    yield


@contextlib.contextmanager
def discarded(live: Live) -> Iterator[None]:
    """Outputs that Megatron empties outside of any operation, because they are computed again, are counted as empty."""
    from megatron.core.tensor_parallel.random import CheckpointWithoutOutput

    original = CheckpointWithoutOutput.discard_output_and_register_recompute

    def discard(self: Any, hook_tensor: Any) -> None:
        for output in self.outputs:
            live.empty(output.untyped_storage())
        original(self, hook_tensor)

    with mock.patch.object(CheckpointWithoutOutput, "discard_output_and_register_recompute", discard):
        yield


def _finite(self: Any) -> bool:
    """`MixedPrecisionOptimizer._unscale_main_grads_and_check_for_nan`, which found nothing infinite."""
    type(self)._unscaled(self)
    return False


def _mesh(original: Any) -> Any:
    """`DeviceMesh.from_group` of CPUs, for a group that Megatron takes to be of GPUs."""

    def made(group: Any, device_type: str, *args: Any, **options: Any) -> Any:
        with _disable_current_modes():
            return original(group, "cpu", *args, **options)

    return made


def _none_shared() -> Any:
    """`random._get_share_storage` where storages have no bytes: what was computed again is counted where it is."""
    return lambda output, again: None


@contextlib.contextmanager
def answered(rows: int, received: int) -> Iterator[None]:
    """Numbers for a step of fake tensors: losses and norms are finite, and a rank's experts get equal shares.

    Args:
        rows: tokens that this rank's routers send, each counted once for every expert that gets it.
        received: those that its experts get.
    """
    from megatron.core.distributed import param_and_grad_buffer
    from megatron.core.optimizer.optimizer import MixedPrecisionOptimizer as mixed
    from megatron.core.tensor_parallel import random
    from megatron.core.tensor_parallel.random import CudaRNGStatesTracker

    with contextlib.ExitStack() as stack:
        for name, value in (("item", 0.5), ("__bool__", False), ("__float__", 0.5)):
            stack.enter_context(_answer(torch.Tensor, name, value))
        for patch in (
            mock.patch.object(param_and_grad_buffer, "_coalescing_manager", _Together),
            mock.patch.object(distributed, "all_gather_object", _same_everywhere),
            mock.patch.object(CudaRNGStatesTracker, "fork", _no_fork),
            mock.patch.object(random, "_get_share_storage", _none_shared),
            mock.patch.object(mixed, "_unscaled", mixed._unscale_main_grads_and_check_for_nan, create=True),
            mock.patch.object(mixed, "_unscale_main_grads_and_check_for_nan", _finite),
            mock.patch.object(torch.nn.Module, "bfloat16", _in(torch.bfloat16)),
            mock.patch.object(torch.nn.Module, "half", _in(torch.float16)),
            mock.patch.object(torch.nn.Module, "cuda", _as_it_is),
            mock.patch.object(DeviceMesh, "from_group", _mesh(DeviceMesh.from_group)),
        ):
            stack.enter_context(patch)
        if rows:
            _balance(stack, rows, received)
        yield


def _balance(stack: contextlib.ExitStack, rows: int, received: int) -> None:
    """Every size that depends on the routers' choice is its mean, among what is sent and among what is received."""
    from megatron.core.transformer.moe import moe_utils, token_dispatcher

    split = _shares(received)
    original = torch.Tensor.tolist
    whole = token_dispatcher.all_to_all

    def tolist(self: Any) -> Any:
        if not isinstance(self, FakeTensor):
            return original(self)
        if self.dim() < 2:
            return split(self.numel())
        values = split(self.numel())
        return [values[i : i + self.shape[1]] for i in range(0, len(values), self.shape[1])]

    def all_to_all(group: Any, source: Any, out: Any = None, into: Any = None, *args: Any, **options: Any) -> Any:
        sent = source.shape[0]
        arrives = received if sent == rows else rows

        def sizes(given: Any, total: int) -> Any:
            return _shares(total)(given.numel()) if isinstance(given, torch.Tensor) else given

        return whole(group, source, sizes(out, arrives), sizes(into, sent), *args, **options)

    def sorted_chunks(source: Any, sizes: Any, order: Any, probs: Any = None, fused: bool = False) -> Any:
        def again(tensor: Any) -> Any:
            parts = torch.split(tensor, _shares(tensor.shape[0])(sizes.numel()), dim=0)
            return torch.cat(list(parts), dim=0)

        return again(source), None if probs is None else again(probs)

    replaced: Mapping[str, Any] = {"tolist": tolist, "__int__": lambda self: rows, "__index__": lambda self: rows}
    for name, function in replaced.items():
        stack.enter_context(mock.patch.object(FakeTensor, name, function, create=True))
    stack.enter_context(mock.patch.object(token_dispatcher, "all_to_all", all_to_all))
    for module in (moe_utils, token_dispatcher):
        stack.enter_context(mock.patch.object(module, "sort_chunks_by_idxs", sorted_chunks))


def _shares(rows: int) -> Any:
    def split(count: int) -> list[int]:
        return [rows // count] * (count - 1) + [rows - rows // count * (count - 1)]

    return split
