"""Messages between ranks, and what has to arrive: exactly that, by rank and by place."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import distributed

from primus_preflight.kernels.numbers import copied, share, total

_AT_ONCE = 1 << 20
"""Elements that are made or compared at a time: messages may fill most of a device's memory."""


class Buffers:
    """The buffers of one message on one rank.

    Args:
        size: bytes of the whole message, of all ranks' parts together; rounded to a whole element for each rank.
    """

    def __init__(self, size: int, dtype: torch.dtype, rank: int, world: int, device: torch.device) -> None:
        self.rank, self.world, self.dtype = rank, world, dtype
        self.part = max(1, size // dtype.itemsize // world)
        self.count = self.part * world
        self.bytes = self.count * dtype.itemsize
        sends, receives = self._lengths()
        self.sent = torch.empty(sends, dtype=dtype, device=device)
        self.received = torch.empty(receives, dtype=dtype, device=device)

    def fill(self) -> None:
        """Make the buffers ready; nothing of an earlier message remains."""
        for block, places in _blocks(self.sent):
            block.copy_(self._sent(places))
        self.received.fill_(-1)

    def work(self) -> object:
        raise NotImplementedError

    def arrived(self) -> torch.Tensor:
        """The buffer that is to be looked at."""
        return self.received

    def fault(self) -> str:
        """What is wrong here, with the rank that says so; empty where all is right."""
        differences = self.differences()
        return differences and f"rank {self.rank}: {differences}"

    def differences(self) -> str:
        """What is wrong with what has arrived; empty where all is right."""
        count, first = 0, ""
        for block, places in _blocks(self.arrived()):
            expected = self._expected(places)
            wrong = (block != expected).nonzero()
            if len(wrong) and not count:
                at = int(wrong[0])
                first = f"{float(block[at]):g} instead of {float(expected[at]):g} at element {int(places[at])}"
            count += len(wrong)
        return f"{count} of {self.arrived().numel()} elements are wrong, {first}" if count else ""

    def _lengths(self) -> tuple[int, int]:
        """Elements that are sent, and that are received elsewhere than in their place."""
        raise NotImplementedError

    def _sent(self, places: torch.Tensor) -> torch.Tensor:
        """What this rank sends, by the places in its buffer."""
        return copied(places, self.rank, self.dtype)

    def _expected(self, places: torch.Tensor) -> torch.Tensor:
        """What has to be at places of the buffer that is looked at."""
        raise NotImplementedError


class AllReduce(Buffers):
    def work(self) -> object:
        return distributed.all_reduce(self.sent)

    def arrived(self) -> torch.Tensor:
        return self.sent

    def _lengths(self) -> tuple[int, int]:
        return self.count, 0

    def _sent(self, places: torch.Tensor) -> torch.Tensor:
        return share(places, self.rank, self.world, self.dtype)

    def _expected(self, places: torch.Tensor) -> torch.Tensor:
        return total(places, self.world, self.dtype)


class Broadcast(Buffers):
    """From rank 0."""

    def work(self) -> object:
        return distributed.broadcast(self.sent, 0)

    def arrived(self) -> torch.Tensor:
        return self.sent

    def _lengths(self) -> tuple[int, int]:
        return self.count, 0

    def _expected(self, places: torch.Tensor) -> torch.Tensor:
        return copied(places, 0, self.dtype)


class ReduceScatter(Buffers):
    def work(self) -> object:
        return distributed.reduce_scatter_tensor(self.received, self.sent)

    def _lengths(self) -> tuple[int, int]:
        return self.count, self.part

    def _sent(self, places: torch.Tensor) -> torch.Tensor:
        return share(places, self.rank, self.world, self.dtype)

    def _expected(self, places: torch.Tensor) -> torch.Tensor:
        return total(places + self.rank * self.part, self.world, self.dtype)


class AllGather(Buffers):
    def work(self) -> object:
        return distributed.all_gather_into_tensor(self.received, self.sent)

    def _lengths(self) -> tuple[int, int]:
        return self.part, self.count

    def _expected(self, places: torch.Tensor) -> torch.Tensor:
        return copied(places % self.part, places // self.part, self.dtype)


class AllToAll(Buffers):
    def work(self) -> object:
        return distributed.all_to_all_single(self.received, self.sent)

    def _lengths(self) -> tuple[int, int]:
        return self.count, self.count

    def _expected(self, places: torch.Tensor) -> torch.Tensor:
        return copied(places % self.part + self.rank * self.part, places // self.part, self.dtype)


def _blocks(buffer: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Pieces of a buffer one after the other, each with its places there."""
    for begin in range(0, len(buffer), _AT_ONCE):
        block = buffer[begin : begin + _AT_ONCE]
        yield block, torch.arange(begin, begin + len(block), device=buffer.device)


MakeBuffers = Callable[[int, torch.dtype, int, int, torch.device], Buffers]
COLLECTIVES: dict[str, MakeBuffers] = {
    "all_reduce": AllReduce,
    "broadcast": Broadcast,
    "reduce_scatter": ReduceScatter,
    "all_gather": AllGather,
    "alltoall": AllToAll,
}
"""By the names that the suite `rccl` has for them."""
