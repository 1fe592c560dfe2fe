"""What a training step asks of tensors and that tensors without values cannot answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import _meta_registrations
from torch._subclasses.fake_tensor import FakeTensor
from torchtitan.models.common.token_dispatcher import AllToAllTokenDispatcher, LocalTokenDispatcher


def _answer(owner: Any, name: str, value: Any) -> Any:
    original = getattr(owner, name)

    def read(self: Any) -> Any:
        return value if isinstance(self, FakeTensor) and self.constant is None else original(self)

    return mock.patch.object(owner, name, read)


def _reordered(self: Any, *args: Any) -> Any:
    made = LocalTokenDispatcher._local_reorder(self, *args)
    self.rows = made[0].shape[0]
    return made


def _exchanged(load: float) -> Any:
    def exchanged(self: Any, own: Any, others: Any, ranks: int) -> tuple[Any, list[int], list[int]]:
        sent = self.rows // ranks
        return others.reshape(-1), [sent] * ranks, [round(sent * load)] * ranks

    return exchanged


def _grouped(first: Any, second: Any, *args: Any, offs: Any = None, **options: Any) -> Any:
    """Products of experts in fp32, which a CPU computes and which the rule for tensors without values refuses."""
    if first.dtype == torch.float32:
        return _meta_registrations._create_grouped_mm_output_tensor(first, second, offs, None)
    return _grouped_product(first, second, *args, offs=offs, **options)


_grouped_product = _meta_registrations._meta_grouped_mm_common


@contextlib.contextmanager
def answered(load: float = 1) -> Iterator[None]:
    """Numbers for a step of fake tensors: losses and norms are finite, and every expert gets as many tokens, or those
    of this rank so many times as many."""
    with contextlib.ExitStack() as stack:
        for name, replacement in (("_local_reorder", _reordered), ("_sync_token_count_exchange", _exchanged(load))):
            stack.enter_context(mock.patch.object(AllToAllTokenDispatcher, name, replacement))
        stack.enter_context(mock.patch.object(_meta_registrations, "_meta_grouped_mm_common", _grouped))
        for name, value in (("item", 1), ("__bool__", False), ("__float__", 0.5)):
            stack.enter_context(_answer(torch.Tensor, name, value))
        yield
