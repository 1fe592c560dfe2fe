"""The five collectives of the suite `rccl`: what each sends, and what has to arrive."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import distributed

_PERIOD = 7
_STEP = 3
_ONES = 5


class Collective:
    """The buffers of one collective in one size on one rank.

    What a rank sends at a position follows from both: ones and zeros, so that sums are exact in any type as far as it
    counts whole numbers.

    Args:
        size: bytes of the whole message, of all ranks' parts together; rounded to a whole element for each rank.
    """

    def __init__(self, size: int, dtype: torch.dtype, rank: int, world: int, device: torch.device) -> None:
        self.rank, self.world = rank, world
        self.part = max(1, size // dtype.itemsize // world)
        self.count = self.part * world
        self.bytes = self.count * dtype.itemsize
        self._positions = torch.arange(self.count, device=device)
        self.sent = torch.empty(self.count, dtype=dtype, device=device)
        self.received = torch.empty(self.count, dtype=dtype, device=device)

    def fill(self) -> None:
        """Make the buffers ready; nothing of an earlier message remains."""
        self.sent.copy_(self.values(self.rank))
        self.received.fill_(-1)

    def work(self) -> object:
        raise NotImplementedError

    def arrived(self) -> torch.Tensor:
        """The part of a buffer that is to be looked at."""
        raise NotImplementedError

    def expected(self) -> torch.Tensor:
        raise NotImplementedError

    def fault(self) -> str:
        """What is wrong with what has arrived; empty where all is right. Sums may be rounded in each addition."""
        expected, found = self.expected().double(), self.arrived().double()
        epsilon = torch.finfo(self.sent.dtype).eps
        allowed = expected * (epsilon * self.world if self.world * epsilon > 1 else 0.0)
        wrong = ((found - expected).abs() > allowed).nonzero()
        if not len(wrong):
            return ""
        first = int(wrong[0])
        values = f"{float(found[first]):g} instead of {float(expected[first]):g} at element {first}"
        return f"rank {self.rank}: {len(wrong)} of {found.numel()} elements are wrong, {values}"

    def values(self, rank: int) -> torch.Tensor:
        """What a rank sends."""
        return (self._positions + _STEP * rank) % _PERIOD < _ONES

    def sums(self) -> torch.Tensor:
        """What all send, added; ranks that are a period apart send the same."""
        alike = [len(range(first, self.world, _PERIOD)) for first in range(_PERIOD)]
        return sum((self.values(first) * count for first, count in enumerate(alike)), torch.zeros_like(self._positions))

    def slice(self, rank: int) -> slice:
        """A rank's part."""
        return slice(rank * self.part, (rank + 1) * self.part)

    def parts(self, of_receiver: bool) -> torch.Tensor:
        """Of each rank's message the part that is for this rank, or the sender's own."""
        return torch.cat(
            [self.values(rank)[self.slice(self.rank if of_receiver else rank)] for rank in range(self.world)]
        )


class AllReduce(Collective):
    def work(self) -> object:
        return distributed.all_reduce(self.sent)

    def arrived(self) -> torch.Tensor:
        return self.sent

    def expected(self) -> torch.Tensor:
        return self.sums()


class Broadcast(Collective):
    """From rank 0."""

    def work(self) -> object:
        return distributed.broadcast(self.sent, 0)

    def arrived(self) -> torch.Tensor:
        return self.sent

    def expected(self) -> torch.Tensor:
        return self.values(0)


class ReduceScatter(Collective):
    def work(self) -> object:
        return distributed.reduce_scatter_tensor(self.received[: self.part], self.sent)

    def arrived(self) -> torch.Tensor:
        return self.received[: self.part]

    def expected(self) -> torch.Tensor:
        return self.sums()[self.slice(self.rank)]


class AllGather(Collective):
    def work(self) -> object:
        return distributed.all_gather_into_tensor(self.received, self.sent[self.slice(self.rank)])

    def arrived(self) -> torch.Tensor:
        return self.received

    def expected(self) -> torch.Tensor:
        return self.parts(of_receiver=False)


class AllToAll(Collective):
    def work(self) -> object:
        return distributed.all_to_all_single(self.received, self.sent)

    def arrived(self) -> torch.Tensor:
        return self.received

    def expected(self) -> torch.Tensor:
        return self.parts(of_receiver=True)


COLLECTIVES: dict[str, Callable[[int, torch.dtype, int, int, torch.device], Collective]] = {
    "all_reduce": AllReduce,
    "broadcast": Broadcast,
    "reduce_scatter": ReduceScatter,
    "all_gather": AllGather,
    "alltoall": AllToAll,
}
