"""Room on the disk for a checkpoint."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from attrs import frozen

from primus_core.checkpoints.faults import Unreadable
from primus_core.checkpoints.folders import MARKER, Checkpoint
from primus_core.checkpoints.sidecar import read_sidecar
from primus_core.quantities import memory_size


@frozen(kw_only=True)
class Room:
    """What a checkpoint needs, and what there is."""

    folder: str
    needed: int
    """Bytes; an estimate."""
    free: int
    """Bytes that this user may still write."""

    @classmethod
    def of(cls, folder: str, needed: int) -> Room:
        found = os.statvfs(folder)
        return cls(folder=folder, needed=needed, free=found.f_bavail * found.f_frsize)

    @property
    def is_enough(self) -> bool:
        return self.free >= self.needed

    def __str__(self) -> str:
        return f"it takes about {memory_size(self.needed)}, and {self.folder} has {memory_size(self.free)} left"


def size_on_disk(checkpoint: Checkpoint | None) -> int:
    """Bytes of a checkpoint's files; 0 where that is not known."""
    try:
        sidecar = read_sidecar(Path(checkpoint.folder) / MARKER) if checkpoint else None
    except Unreadable:
        return 0
    return sum(stored.size for stored in sidecar.files.values()) if sidecar else 0


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an exception, or what it was made of, tells of a full disk or an exhausted quota."""
    full = (errno.ENOSPC, errno.EDQUOT)
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in full:
            return True
        # torch and Megatron pass on what other processes told as text
        if any(os.strerror(number) in str(error) for number in full):
            return True
        error = error.__cause__ or error.__context__
    return False
