"""Progress of reading bytes, not more often than a person can read."""

from __future__ import annotations

import time
from typing import Protocol

_INTERVAL_SECONDS = 0.1


class Listener(Protocol):
    """Who is told how a long work goes: a rank's context, or a terminal."""

    def progress(self, what: str, done: int, total: int | None, unit: str) -> None:
        """So much is done."""

    def log(self, level: str, event: str, **values: object) -> None:
        """Something is worth a record."""


class ByteProgress:
    """Adds up bytes and tells the console at most ten times a second.

    Args:
        total: bytes to come.
        always: tell the end also of work that was too short to be told in between.
    """

    def __init__(self, listener: Listener, what: str, total: int, *, always: bool = False) -> None:
        self._listener = listener
        self._what = what
        self._total = total
        self._done = 0
        self._told = time.monotonic()
        self._finish = always

    def advance(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._told >= _INTERVAL_SECONDS:
            self._told = now
            self._finish = True
            self._listener.progress(self._what, min(self._done, self._total), self._total, "bytes")

    def finish(self) -> None:
        """Tell that all is done, where the beginning was told."""
        if self._finish:
            self._listener.progress(self._what, self._total, self._total, "bytes")
