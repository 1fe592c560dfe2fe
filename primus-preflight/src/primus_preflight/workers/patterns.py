"""What ranks of a performance test send to each other: the collectives of benchmarks, and transfers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import distributed

from primus_preflight.kernels.buffers import AllGather, AllReduce, AllToAll, Buffers, MakeBuffers, ReduceScatter
from primus_preflight.kernels.numbers import copied
from primus_preflight.performance.tokens import Work


class _Received(Buffers):
    """A message as a whole from one rank to another."""

    def _lengths(self) -> tuple[int, int]:
        return self.count, self.count


class _Transfer(_Received):
    """From rank 0 to rank 1."""

    def work(self) -> object:
        return distributed.recv(self.received, 0) if self.rank else distributed.send(self.sent, 1)

    def differences(self) -> str:
        return super().differences() if self.rank else ""

    def _expected(self, places: torch.Tensor) -> torch.Tensor:
        return copied(places, 0, self.dtype)


class _Ring(_Received):
    """From each rank to the next."""

    def work(self) -> object:
        forth = distributed.P2POp(distributed.isend, self.sent, (self.rank + 1) % self.world)
        back = distributed.P2POp(distributed.irecv, self.received, (self.rank - 1) % self.world)
        return [one.wait() for one in distributed.batch_isend_irecv([forth, back])]

    def _expected(self, places: torch.Tensor) -> torch.Tensor:
        return copied(places, (self.rank - 1) % self.world, self.dtype)


WORKS: Mapping[Work, MakeBuffers] = {
    "all_reduce": AllReduce,
    "all_gather": AllGather,
    "reduce_scatter": ReduceScatter,
    "all_to_all": AllToAll,
    "transfer": _Transfer,
    "ring": _Ring,
}
