"""The ranks of a benchmark: how they meet, and how their figures come together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed

from primus_core.contract import RankContext
from primus_core.errors import DependencyError

_LIMIT = timedelta(minutes=10)
"""For one step that all ranks take together."""
Told = TypeVar("Told")


class Together:
    """All ranks of a run; one alone needs no others.

    Args:
        words: group in which ranks tell each other what they measured; gloo, so that it needs no device.
    """

    def __init__(self, rank: int, world: int, device: torch.device, words: Any) -> None:
        self.rank, self.world, self.device = rank, world, device
        self._words = words

    def gather(self, told: Told) -> list[Told]:
        """What every rank tells, in the order of ranks, in every rank."""
        if self.world == 1:
            return [told]
        found: list[Any] = [None] * self.world
        distributed.all_gather_object(found, told, group=self._words)
        return found

    def meet(self) -> None:
        """Go on when all are here, with all their work done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        if self.world > 1:
            distributed.barrier(group=self._words)


@contextmanager
def together(rank: RankContext, device: torch.device, backend: str | None) -> Iterator[Together]:
    """The ranks, met.

    Args:
        backend: of the default group, in which collectives are measured; None where none are.

    Raises:
        DependencyError: torch here has no such back end.
    """
    if rank.world_size == 1 and backend is None:
        yield Together(rank.rank, 1, device, None)
        return
    chosen = backend or "gloo"
    if not distributed.is_backend_available(chosen):
        raise DependencyError(f"this torch has no {chosen}", remedy="choose another one: --backend gloo")
    placed = device if chosen == "nccl" else None
    distributed.init_process_group(chosen, timeout=_LIMIT, device_id=placed)
    try:
        words = distributed.group.WORLD if chosen == "gloo" else distributed.new_group(backend="gloo", timeout=_LIMIT)
        yield Together(rank.rank, rank.world_size, device, words)
    finally:
        distributed.destroy_process_group()


def slowest(times: Sequence[Sequence[float]]) -> list[float]:
    """Of each repetition the time of the rank that took longest: a collective is done when all are."""
    return [max(each) for each in zip(*times, strict=True)]
