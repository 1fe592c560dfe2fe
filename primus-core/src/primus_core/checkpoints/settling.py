"""The checkpoint to load, looked at by all ranks together: the newest sound one of those that may be taken."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol, TypeVar

from primus_core.checkpoints.choosing import Choice
from primus_core.checkpoints.contents import faults, share
from primus_core.checkpoints.faults import Unreadable
from primus_core.checkpoints.folders import MARKER, Checkpoint
from primus_core.checkpoints.sidecar import Sidecar, read_sidecar
from primus_core.errors import RunError

_TOLD = 3
T = TypeVar("T")


class Rank(Protocol):
    """As much as is needed of `primus_core.contract.RankContext`."""

    rank: int
    world_size: int

    def log(self, level: str, event: str, **values: object) -> None: ...


class Peers(Protocol):
    """Collectives among all ranks of the run; every rank calls them in the same order."""

    def first(self, value: T) -> T:
        """What rank 0 gives, in every rank."""

    def all(self, value: T) -> list[T]:
        """What each rank gives, in every rank."""


def settle(choice: Choice, rank: Rank, peers: Peers, *, sums: bool) -> Choice:
    """The choice itself, or an older checkpoint in place of damaged ones; the same in every rank.

    Args:
        sums: compare checksums too, not sizes alone.

    Raises:
        RunError: all that may be taken are damaged.
    """
    chosen: Choice = peers.first(choice)
    while chosen.checkpoint is not None and chosen.checkpoint.marked:
        damage = _damage(chosen.checkpoint, rank, peers, sums=sums)
        if not damage:
            break
        if rank.rank == 0:
            rank.log("warning", f"checkpoint {chosen.checkpoint.folder} is damaged: {_listed(damage)}")
        if not chosen.older:
            raise _all_damaged(chosen.checkpoint, damage)
        chosen = chosen.without_newest()
    return chosen


def size_faults(checkpoint: Checkpoint) -> str:
    """What is wrong with the sizes of a checkpoint's files, in words; empty for nothing, or where none are known."""
    try:
        sidecar = read_sidecar(checkpoint.folder / MARKER) if checkpoint.marked else None
    except Unreadable as unreadable:
        return f"{MARKER} is {unreadable}"
    return _listed(list(faults(checkpoint.folder, sidecar.files, sidecar.files, sums=False))) if sidecar else ""


def _damage(checkpoint: Checkpoint, rank: Rank, peers: Peers, *, sums: bool) -> list[str]:
    """What all ranks together find, each in its share."""
    started = time.monotonic()
    found = [fault for part in peers.all(_found(checkpoint, rank, sums=sums)) for fault in part]
    if rank.rank == 0:
        seconds = round(time.monotonic() - started, 3)
        rank.log("info", "checkpoint looked at", folder=str(checkpoint.folder), checksums=sums, seconds=seconds)
    return found


def _found(checkpoint: Checkpoint, rank: Rank, *, sums: bool) -> list[str]:
    try:
        sidecar: Sidecar | None = read_sidecar(checkpoint.folder / MARKER)
    except Unreadable as unreadable:
        return [f"{MARKER} is {unreadable}"] if rank.rank == 0 else []
    return list(_looked(checkpoint, sidecar, rank, sums)) if sidecar else []


def _looked(checkpoint: Checkpoint, sidecar: Sidecar, rank: Rank, sums: bool) -> Iterator[str]:
    own = share(sidecar.files, rank.rank, rank.world_size)
    return faults(checkpoint.folder, sidecar.files, own, sums=sums)


def _all_damaged(checkpoint: Checkpoint, damage: list[str]) -> RunError:
    return RunError(
        "the checkpoint to start from is damaged",
        where=str(checkpoint.folder),
        why=_listed(damage),
        remedy="copy it again, or start from another one with load and load_step",
    )


def _listed(damage: list[str]) -> str:
    more = f" and {len(damage) - _TOLD} more" if len(damage) > _TOLD else ""
    return "; ".join(damage[:_TOLD]) + more
