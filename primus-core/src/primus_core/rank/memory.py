"""What the rank's cgroup may use, and whether the kernel ended a process of it for that. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterator

_ROOT = "/sys/fs/cgroup"
_UNLIMITED = 1 << 60
"""Version 1 writes the largest number of pages for no limit."""


class MemoryLimit:
    """The memory cgroup of a process, of version 2 or 1; where it cannot be read, nothing is known.

    Args:
        folder: of the cgroup.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._kills = self._killed()

    @classmethod
    def of_this_process(cls, membership: str = "/proc/self/cgroup", root: str = _ROOT) -> MemoryLimit:
        return cls(next((folder for folder in _folders(membership, root) if _has_events(folder)), None))

    @property
    def limit(self) -> int | None:
        """Bytes; the tightest of the cgroup and those above it. None without any."""
        known = [value for value in self._limits() if value < _UNLIMITED]
        return min(known, default=None)

    @property
    def ran_out(self) -> bool | None:
        """Whether the kernel has ended a process of the cgroup for want of memory since this was made.

        None: it does not say.
        """
        killed = self._killed()
        return None if killed is None or self._kills is None else killed > self._kills

    def _killed(self) -> int | None:
        """How many processes it has ended so far."""
        if self._folder is None:
            return None
        events = {**_numbers(f"{self._folder}/memory.oom_control"), **_numbers(f"{self._folder}/memory.events")}
        return events.get("oom_kill")

    def _limits(self) -> Iterator[int]:
        folder = self._folder
        if folder is None:
            return
        yield from filter(None, [_numbers(f"{folder}/memory.stat").get("hierarchical_memory_limit")])
        while folder.startswith(f"{_ROOT}/") or folder == self._folder:
            text = _text(f"{folder}/memory.max").strip()
            if text.isdigit():
                yield int(text)
            folder = os.path.dirname(folder)


def _folders(membership: str, root: str) -> Iterator[str]:
    """Where the cgroup may be: a container sees its own as the root, whatever its name is outside."""
    for line in _text(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory") or "memory" in controllers.split(","):
            for base in (f"{root}/{controllers}" if controllers else root, f"{root}/unified"):
                yield f"{base}{path}".rstrip("/")
                yield base


def _has_events(folder: str) -> bool:
    return any(os.path.exists(f"{folder}/{name}") for name in ("memory.events", "memory.oom_control"))


def _numbers(path: str) -> dict[str, int]:
    """Lines of a name and a number."""
    pairs = (line.split() for line in _text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _text(path: str) -> str:
    """Empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
