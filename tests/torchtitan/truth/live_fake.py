"""What a training step asks of tensors and that tensors without values cannot answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
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


def _exchanged(self: Any, own: Any, others: Any, ranks: int) -> tuple[Any, list[int], list[int]]:
    splits = [self.rows // ranks] * ranks
    return others.reshape(-1), splits, splits


@contextlib.contextmanager
def answered() -> Iterator[None]:
    """Numbers for a step of fake tensors: losses and norms are finite, and every expert gets as many tokens."""
    with contextlib.ExitStack() as stack:
        for name, replacement in (("_local_reorder", _reordered), ("_sync_token_count_exchange", _exchanged)):
            stack.enter_context(mock.patch.object(AllToAllTokenDispatcher, name, replacement))
        for name, value in (("item", 1), ("__bool__", False), ("__float__", 0.5)):
            stack.enter_context(_answer(torch.Tensor, name, value))
        yield
