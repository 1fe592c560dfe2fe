"""Floating-point operations of a library's own training step, as PyTorch's FlopCounterMode counts them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.utils import flop_counter
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

STEPS = 2
"""That the harnesses run."""
Formulas = Mapping[Any, Callable[..., int]]
_PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)


class _Together(contextlib.nullcontext[None]):
    """In the place of what tells modules apart, which a pipeline's backward pass in parts does not bear."""

    parents = frozenset({"Global"})


class Counter(FlopCounterMode):  # type: ignore[misc]  # torch has no types for it
    """With formulas for what PyTorch has none for; of a distributed tensor it counts what this rank does."""

    def __init__(self, more: Formulas) -> None:
        super().__init__(display=False, custom_mapping={**_mapping(), **more})
        self.mod_tracker = _Together()
        self._patches = (
            mock.patch.object(flop_counter._FlopCounterMode, "__torch_dispatch__", _local()),
            mock.patch.object(ShardingPropagator, "_propagate_tensor_meta_non_cached", _uncounted()),
        )

    def __enter__(self) -> Any:
        for patch in self._patches:
            patch.start()
        return super().__enter__()

    def __exit__(self, *error: Any) -> Any:
        result = super().__exit__(*error)
        for patch in self._patches:
            patch.stop()
        return result

    def add(self, name: str, flops: int) -> None:
        """Of a kernel that a stand-in without operations takes the place of."""
        self.flop_counts["Global"][name] += flops


def _local() -> Any:
    original = flop_counter._FlopCounterMode.__torch_dispatch__

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind not in _PLAIN for kind in types):
            return NotImplemented
        return original(self, func, types, args, kwargs)

    return dispatch


def _uncounted() -> Any:
    """A distributed tensor's operation on whole tensors, to know the size of its result."""
    original = ShardingPropagator._propagate_tensor_meta_non_cached

    def propagate(self: Any, schema: Any) -> Any:
        with _disable_current_modes():
            return original(self, schema)

    return propagate


def forward_flops(query: Any, key: Any, value: Any, *args: Any, out_shape: Any = None, **options: Any) -> int:
    """Of attention, by the shapes of what it reads."""
    return int(sdpa_flop_count(query, key, value))


def backward_flops(
    gradient: Any, query: Any, key: Any, value: Any, *args: Any, out_shape: Any = None, **options: Any
) -> int:
    """Of attention that computes its scores again."""
    return int(sdpa_backward_flop_count(gradient, query, key, value))


def _grouped(left: Any, right: Any, *args: Any, out_shape: Any = None, **options: Any) -> int:
    """A product of tokens with a matrix for each group of them, or of the tokens of each group with each other."""
    return int(2 * left[-2] * left[-1] * right[-1])


def _mapping() -> dict[Any, Any]:
    aten = torch.ops.aten
    return {
        aten._grouped_mm: _grouped,
        aten._scaled_dot_product_flash_attention_for_cpu: forward_flops,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: backward_flops,
    }


@contextlib.contextmanager
def counting(harness: ModuleType, more: Formulas | None = None) -> Iterator[Counter]:
    """All that the `_steps` of a harness run.

    Args:
        more: formulas, by operation.
    """
    counter, original = Counter(more or {}), harness._steps

    def steps(*args: Any, **options: Any) -> Any:
        with counter:
            return original(*args, **options)

    with mock.patch.object(harness, "_steps", steps):
        yield counter


def per_step(counter: Counter) -> int:
    """Operations of one step of this rank."""
    return int(counter.get_total_flops()) // STEPS


@contextlib.contextmanager
def told(counter: Counter, owner: Any, forward: str, backward: str) -> Iterator[None]:
    """Two functions that stand in for attention's kernel are counted by PyTorch's formulas for it.

    Args:
        forward: name of a function that reads queries, keys and values last.
        backward: of one that has saved them first.
    """

    def ahead(*args: Any) -> Any:
        counter.add("attention", forward_flops(*(each.shape for each in args[-3:])))
        return originals[0](*args)

    def back(ctx: Any, gradient: Any, *more: Any) -> Any:
        shapes = (each.shape for each in (gradient, *ctx.saved_tensors[:3]))
        counter.add("attention backward", backward_flops(*shapes))
        return originals[1](ctx, gradient, *more)

    originals: list[Callable[..., Any]] = [getattr(owner, forward), getattr(owner, backward)]
    wrap = staticmethod if isinstance(owner, type) else (lambda function: function)
    with mock.patch.object(owner, forward, wrap(ahead)), mock.patch.object(owner, backward, wrap(back)):
        yield
