"""The memory of a host, as its kernel tells it."""

from __future__ import annotations

from pathlib import Path

from primus_core.records import frozen


@frozen(kw_only=True)
class HostMemory:
    """Bytes; None where the kernel does not tell."""

    total: int | None = None
    available: int | None = None
    """What processes may still have before the host swaps."""


def host_memory(root: Path = Path("/")) -> HostMemory:
    """Read ``/proc/meminfo``.

    Args:
        root: the file system to look at; another one than ``/`` only in tests.
    """
    try:
        lines = (root / "proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return HostMemory()
    told = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return HostMemory(total=_bytes(told.get("MemTotal")), available=_bytes(told.get("MemAvailable")))


def _bytes(words: list[str] | None) -> int | None:
    """Of ``16 kB``."""
    return int(words[0]) * 1024 if words and words[0].isdecimal() else None
