"""Messages of many ranks, made and looked at in one process: what has to be noticed of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from primus_core.contract import RankContext
from primus_core.plan import RunPlan
from primus_preflight.kernels.buffers import AllGather, AllReduce, AllToAll, Broadcast, Buffers, MakeBuffers
from primus_preflight.kernels.device import DTYPES
from primus_preflight.workers.patterns import WORKS

CPU = torch.device("cpu")


def run(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Check what the plan's arguments name, for one type; it fails by an assertion."""
    asked = plan.task.arguments
    check = {"sums": _sums, "faults": _faults, "copies": _copies, "memory": _memory}[str(asked["check"])]
    check(DTYPES[str(asked["dtype"])])
    return {}


def _ranks(make: MakeBuffers, world: int, dtype: torch.dtype, *, part: int = 3) -> list[Buffers]:
    """One message on each rank, ready to be sent."""
    made = [make(part * world * dtype.itemsize, dtype, rank, world, CPU) for rank in range(world)]
    for one in made:
        one.fill()
    return made


def _sums(dtype: torch.dtype) -> None:
    """In whatever order shares are added and rounded, the sum is what is expected, and it is nowhere 0."""
    dice = random.Random(1)
    for world in (1, 2, 7, 129, 600):
        ranks = _ranks(AllReduce, world, dtype)
        shares = [one.sent.clone() for one in ranks]
        for _ in range(3):
            dice.shuffle(shares)
            for total in (reduce(torch.add, shares), _by_halves(shares)):
                assert int((total == 0).sum()) == 0
                ranks[0].sent.copy_(total)
                assert ranks[0].differences() == "", world


def _by_halves(shares: Sequence[torch.Tensor]) -> torch.Tensor:
    middle = len(shares) // 2
    return _by_halves(shares[:middle]) + _by_halves(shares[middle:]) if middle else shares[0]


def _faults(dtype: torch.dtype) -> None:
    """A sum without one rank, with one twice, with another in its place, of nothing or shifted is noticed."""
    world = 129
    ranks = _ranks(AllReduce, world, dtype)
    shares = [one.sent.clone() for one in ranks]
    right = reduce(torch.add, shares)
    wrong = {"nothing": shares[5], "zeros": torch.zeros_like(right), "shifted": right.roll(1)}
    wrong |= {f"without {rank}": right - own for rank, own in enumerate(shares)}
    wrong |= {f"twice {rank}": right + own for rank, own in enumerate(shares)}
    wrong |= {f"{rank} for another": right - shares[rank - 1] + own for rank, own in enumerate(shares)}
    for name, values in wrong.items():
        ranks[5].sent.copy_(values)
        assert "elements are wrong" in ranks[5].differences(), name


def _copies(dtype: torch.dtype) -> None:
    """A broadcast that did nothing on any rank; what another rank has sent, or another part of it, or no one."""
    world = 129
    assert [rank for rank, one in enumerate(_ranks(Broadcast, world, dtype)) if not one.differences()] == [0]
    for make in (AllGather, AllToAll):
        ranks = _ranks(make, world, dtype)
        one = ranks[4]
        parts = [each.sent if make is AllGather else each.sent[12:15] for each in ranks]
        one.received.copy_(torch.cat(parts))
        assert one.differences() == ""
        _spoil(one, torch.cat([*parts[1:], parts[0]]), f"{world * 3} of {world * 3} elements are wrong")
        _spoil(one, torch.cat([*parts[:8], parts[1], *parts[9:]]), "3 of 387 elements are wrong")
        _spoil(one, torch.cat(parts).roll(1), "elements are wrong")
    _spoil(one, torch.cat([each.sent[15:18] for each in ranks]), "elements are wrong")
    ring = _ranks(WORKS["ring"], world, dtype)
    wrong = [sender for sender in range(world) if _arrives(ring[9], ring[sender].sent)]
    assert wrong == [sender for sender in range(world) if sender != 8]


def _spoil(one: Buffers, values: torch.Tensor, told: str) -> None:
    assert told in _arrives(one, values)


def _arrives(one: Buffers, values: torch.Tensor) -> str:
    one.received.copy_(values)
    return one.differences()


class _Largest(TorchDispatchMode):
    """Bytes of the largest tensor that an operation has made."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and made._base is None and not any(made is one for one in args):
            self.bytes = max(self.bytes, made.nbytes)
        return made


def _memory(dtype: torch.dtype) -> None:
    """A message of 64 MiB is made and compared with pieces of 8 MiB at most."""
    one = WORKS["all_reduce"](64 << 20, dtype, 0, 8, CPU)
    assert one.received.numel() == 0
    with _Largest() as largest:
        one.fill()
        assert one.differences()
    assert 0 < largest.bytes <= 8 << 20
