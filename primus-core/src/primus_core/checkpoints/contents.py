"""The files of a checkpoint: their sizes and checksums, and whether they are still what was written."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from attrs import frozen

_BLOCK = 1 << 20
_WRITER = re.compile(r"__([0-9]{1,9})_[0-9]+\.distcp")
"""How `torch.distributed.checkpoint`, and Megatron with it, name the files that a rank writes."""


@frozen
class Stored:
    """One file as it was written."""

    size: int
    """Bytes; 0 where that is not known."""
    sha256: str = ""
    """In hexadecimal; empty where it is not known."""


def listing(folder: str | Path) -> dict[str, int]:
    """The files below a folder by their paths in it, and their sizes in bytes."""
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(path, name)
            with contextlib.suppress(FileNotFoundError):  # it was there a moment ago
                found[os.path.relpath(file, folder)] = os.stat(file).st_size
    return found


def read_back(folder: str | Path, names: Iterable[str]) -> dict[str, Stored]:
    """Sizes and checksums of files, from what is on disk."""
    return {name: _read(os.path.join(folder, name)) for name in names}


def writer(name: str) -> int | None:
    """The rank that wrote a file; None where its name does not tell."""
    match = _WRITER.fullmatch(os.path.basename(name))
    return int(match[1]) if match else None


def share(names: Iterable[str], rank: int, world_size: int) -> list[str]:
    """The files that one rank looks at: those that it wrote or most likely loads, of the others its turn."""
    ordered = sorted(names)
    chosen = ((index if (by := writer(name)) is None else by) % world_size for index, name in enumerate(ordered))
    return [name for name, one in zip(ordered, chosen, strict=True) if one == rank]


def faults(folder: str | Path, files: Mapping[str, Stored], names: Iterable[str], *, sums: bool) -> Iterator[str]:
    """What is wrong with some of a checkpoint's files, in words.

    Args:
        names: the files to look at.
        sums: read them and compare their checksums too, which takes about a second for each GiB.
    """
    for name in names:
        if fault := _fault(os.path.join(folder, name), files[name], sums=sums):
            yield f"{name} {fault}"


def _fault(path: str, stored: Stored, *, sums: bool) -> str:
    try:
        size = os.stat(path).st_size
        if stored.size and size != stored.size:
            return f"has {size:,} of {stored.size:,} bytes" if size < stored.size else "is larger than what was written"
        if sums and stored.sha256 and _read(path).sha256 != stored.sha256:
            return "has another content than what was written"
    except (FileNotFoundError, NotADirectoryError):
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return ""


def _read(path: str) -> Stored:
    digest, size, block = hashlib.sha256(), 0, memoryview(bytearray(_BLOCK))
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(block):
            digest.update(block[:count])
            size += count
    return Stored(size, digest.hexdigest())
