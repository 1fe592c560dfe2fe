"""Facts about files that are costly to find, remembered until the file changes."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import field, frozen

from primus_core.files import write_atomic

T = TypeVar("T")
"""A fact: anything that JSON holds."""

_SETTLED_SECONDS = 2.0
"""A file younger than this is not remembered: it could change again within the clock tick of its time stamp."""


@frozen(kw_only=True)
class Memo(Generic[T]):
    """A small JSON file of one fact for each path, size, time of change and inode.

    A memo that is damaged or lost costs time only; several processes may write it, the last one wins.
    """

    path: str
    """Where it is kept."""
    _facts: dict[str, tuple[list[int], T]] = field(factory=dict, init=False)
    _fresh: dict[str, tuple[list[int], T]] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._facts.update(self._load())

    def get(self, file: str, find: Callable[[str], T]) -> T:
        """The fact about a file, found anew when the file is not the one that is remembered."""
        status = os.stat(file)
        stamp = [status.st_size, status.st_mtime_ns, status.st_ino]
        known = self._facts.get(file)
        if known is not None and known[0] == stamp:
            return known[1]
        fact = find(file)
        if time.time() - status.st_mtime > _SETTLED_SECONDS:
            self._facts[file] = self._fresh[file] = (stamp, fact)
        return fact

    def save(self) -> None:
        """Keep what was found since it was read."""
        if self._fresh:
            # A disk that is full here is told by whoever has to write data; a memo is not worth a run.
            with contextlib.suppress(OSError):
                write_atomic(self.path, json.dumps({**self._load(), **self._fresh}))

    def _load(self) -> dict[str, tuple[list[int], T]]:
        try:
            with open(self.path, encoding="utf-8") as stream:
                return {file: (stamp, fact) for file, (stamp, fact) in json.load(stream).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
