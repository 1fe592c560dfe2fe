"""What ranks send to each other, and what has to arrive.

Each element follows from the rank that sent it and from its position, so that values of the wrong rank or from the
wrong place are noticed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import distributed

_PERIOD = 7
_STEP = 3
_ONES = 5
_ALL = slice(None)


class Buffers:
    """The buffers of one message on one rank.

    All values are small whole numbers. A type that counts them as far as fp32 has seven of them, whose sums over
    millions of ranks are exact; a narrower one has zeros and ones.

    Args:
        size: bytes of the whole message, of all ranks' parts together; rounded to a whole element for each rank.
    """

    def __init__(self, size: int, dtype: torch.dtype, rank: int, world: int, device: torch.device) -> None:
        self.rank, self.world = rank, world
        self.part = max(1, size // dtype.itemsize // world)
        count = self.part * world
        self.bytes = count * dtype.itemsize
        self._epsilon = torch.finfo(dtype).eps
        self._places = torch.arange(_PERIOD, dtype=torch.uint8, device=device).repeat(-(-count // _PERIOD))[:count]
        self.sent = torch.empty(count, dtype=dtype, device=device)
        self.received = torch.empty(count, dtype=dtype, device=device)

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
        """What has to be there, in fp32."""
        raise NotImplementedError

    def fault(self) -> str:
        """What is wrong here, with the rank that says so; empty where all is right."""
        differences = self.differences()
        return differences and f"rank {self.rank}: {differences}"

    def differences(self) -> str:
        """What is wrong with what has arrived; empty where all is right. Sums may be rounded in each addition."""
        found, expected = self.arrived(), self.expected()
        wrong = self._differs(found, expected).nonzero()
        if not len(wrong):
            return ""
        first = int(wrong[0])
        values = f"{float(found[first]):g} instead of {float(expected[first]):g} at element {first}"
        return f"{len(wrong)} of {found.numel()} elements are wrong, {values}"

    def _differs(self, found: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        error = self._epsilon * self.world
        if error <= 1:  # all numbers up to that of ranks are exact
            return found != expected
        found, expected = found.double(), expected.double()
        return (found - expected).abs() > expected * error

    def values(self, rank: int, where: slice = _ALL) -> torch.Tensor:
        """What a rank sends, in fp32."""
        places = (self._places[where] + _STEP * rank % _PERIOD) % _PERIOD
        counts_far = self._epsilon <= torch.finfo(torch.float32).eps
        return (places + 1 if counts_far else places < _ONES).float()

    def sums(self, where: slice = _ALL) -> torch.Tensor:
        """What all send, added; ranks that are a period apart send the same."""
        alike = [len(range(first, self.world, _PERIOD)) for first in range(min(_PERIOD, self.world))]
        return sum(self.values(first, where) * count for first, count in enumerate(alike))

    def part_of(self, rank: int) -> slice:
        """Where a rank's part is."""
        return slice(rank * self.part, (rank + 1) * self.part)


class AllReduce(Buffers):
    def work(self) -> object:
        return distributed.all_reduce(self.sent)

    def arrived(self) -> torch.Tensor:
        return self.sent

    def expected(self) -> torch.Tensor:
        return self.sums()


class Broadcast(Buffers):
    """From rank 0."""

    def work(self) -> object:
        return distributed.broadcast(self.sent, 0)

    def arrived(self) -> torch.Tensor:
        return self.sent

    def expected(self) -> torch.Tensor:
        return self.values(0)


class ReduceScatter(Buffers):
    def work(self) -> object:
        return distributed.reduce_scatter_tensor(self.received[: self.part], self.sent)

    def arrived(self) -> torch.Tensor:
        return self.received[: self.part]

    def expected(self) -> torch.Tensor:
        return self.sums(self.part_of(self.rank))


class AllGather(Buffers):
    def work(self) -> object:
        return distributed.all_gather_into_tensor(self.received, self.sent[self.part_of(self.rank)])

    def arrived(self) -> torch.Tensor:
        return self.received

    def expected(self) -> torch.Tensor:
        return torch.cat([self.values(rank, self.part_of(rank)) for rank in range(self.world)])


class AllToAll(Buffers):
    def work(self) -> object:
        return distributed.all_to_all_single(self.received, self.sent)

    def arrived(self) -> torch.Tensor:
        return self.received

    def expected(self) -> torch.Tensor:
        return torch.cat([self.values(rank, self.part_of(self.rank)) for rank in range(self.world)])


MakeBuffers = Callable[[int, torch.dtype, int, int, torch.device], Buffers]
COLLECTIVES: dict[str, MakeBuffers] = {
    "all_reduce": AllReduce,
    "broadcast": Broadcast,
    "reduce_scatter": ReduceScatter,
    "all_gather": AllGather,
    "alltoall": AllToAll,
}
"""By the names that the suite `rccl` has for them."""
