"""What ranks send to each other, and what has to arrive.

Each element follows from the rank that sent it and from its position, so that values of the wrong rank or from the
wrong place are noticed. All are small whole numbers, whose sums over many thousands of ranks are exact in fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import distributed

_PERIOD = 7
_STEP = 3


class Buffers:
    """The buffers of one test on one rank.

    Args:
        size: bytes; rounded to a whole number of elements for each rank.
    """

    def __init__(self, size: int, rank: int, world: int, device: torch.device) -> None:
        self.rank, self.world = rank, world
        self.part = max(1, size // 4 // world)
        self.count = self.part * world
        self.positions = torch.arange(self.count, device=device) % _PERIOD
        self.sent = torch.empty(self.count, device=device)
        self.received = torch.empty(self.count, device=device)

    @property
    def size(self) -> int:
        return self.count * 4

    def fill(self) -> None:
        """Make the buffers ready for one repetition; nothing of the last one remains."""
        self.sent.copy_(self.values(self.rank))
        self.received.fill_(-1.0)

    def work(self) -> None:
        raise NotImplementedError

    def fault(self) -> str:
        """What is wrong with what has arrived; empty where all is right."""
        raise NotImplementedError

    def values(self, rank: int) -> torch.Tensor:
        """What a rank sends."""
        return ((self.positions + _STEP * rank) % _PERIOD + 1).float()

    def sums(self) -> torch.Tensor:
        """The sum over all ranks of what they send."""
        alike = [len(range(first, self.world, _PERIOD)) for first in range(_PERIOD)]
        return sum((self.values(first) * count for first, count in enumerate(alike)), torch.zeros_like(self.sent))

    def slice(self, rank: int) -> slice:
        """A rank's part."""
        return slice(rank * self.part, (rank + 1) * self.part)


class _AllReduce(Buffers):
    def work(self) -> None:
        distributed.all_reduce(self.sent)

    def fault(self) -> str:
        return _differences(self.sent, self.sums())


class _AllGather(Buffers):
    def work(self) -> None:
        distributed.all_gather_into_tensor(self.received, self.sent[self.slice(self.rank)])

    def fault(self) -> str:
        parts = [self.values(rank)[self.slice(rank)] for rank in range(self.world)]
        return _differences(self.received, torch.cat(parts))


class _ReduceScatter(Buffers):
    def work(self) -> None:
        distributed.reduce_scatter_tensor(self.received[: self.part], self.sent)

    def fault(self) -> str:
        return _differences(self.received[: self.part], self.sums()[self.slice(self.rank)])


class _AllToAll(Buffers):
    def work(self) -> None:
        distributed.all_to_all_single(self.received, self.sent)

    def fault(self) -> str:
        parts = [self.values(rank)[self.slice(self.rank)] for rank in range(self.world)]
        return _differences(self.received, torch.cat(parts))


class _Transfer(Buffers):
    """From rank 0 to rank 1."""

    def work(self) -> None:
        if self.rank == 0:
            distributed.send(self.sent, 1)
        else:
            distributed.recv(self.received, 0)

    def fault(self) -> str:
        return _differences(self.received, self.values(0)) if self.rank else ""


class _Ring(Buffers):
    """From each rank to the next."""

    def work(self) -> None:
        forth = distributed.P2POp(distributed.isend, self.sent, (self.rank + 1) % self.world)
        back = distributed.P2POp(distributed.irecv, self.received, (self.rank - 1) % self.world)
        for one in distributed.batch_isend_irecv([forth, back]):
            one.wait()

    def fault(self) -> str:
        return _differences(self.received, self.values((self.rank - 1) % self.world))


def _differences(found: torch.Tensor, expected: torch.Tensor) -> str:
    different = (found != expected).nonzero()
    if not len(different):
        return ""
    first = int(different[0])
    values = f"{float(found[first]):g} instead of {float(expected[first]):g} at element {first}"
    return f"{len(different)} of {found.numel()} elements are wrong, {values}"


WORKS: Mapping[str, Callable[[int, int, int, torch.device], Buffers]] = {
    "all_reduce": _AllReduce,
    "all_gather": _AllGather,
    "reduce_scatter": _ReduceScatter,
    "all_to_all": _AllToAll,
    "transfer": _Transfer,
    "ring": _Ring,
}
