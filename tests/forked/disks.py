"""Disks of a few megabytes, and filling them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(place: Path, options: str) -> Iterator[Path]:
    """A file system of its own in memory; needs root."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(path: Path) -> None:
    """Take all the room that a disk has left, while others write to it.

    In small parts: one that fails is given back, and whoever found the disk full meanwhile would see that much room.
    """
    with path.open("wb") as file:
        taken, part = 0, 1 << 20
        while part >= os.statvfs(path).f_frsize:
            try:
                os.posix_fallocate(file.fileno(), taken, part)
                taken += part
            except OSError:
                part //= 2
