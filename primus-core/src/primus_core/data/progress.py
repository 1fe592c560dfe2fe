"""Progress of reading bytes, not more often than a person can read."""

from __future__ import annotations

import time

from primus_core.contract import RankContext

_INTERVAL_SECONDS = 0.1


class ByteProgress:
    """Adds up bytes and tells the console at most ten times a second.

    Args:
        total: bytes to come.
        always: tell the end also of work that was too short to be told in between.
    """

    def __init__(self, rank: RankContext, what: str, total: int, *, always: bool = False) -> None:
        self._rank = rank
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
            self._rank.progress(self._what, min(self._done, self._total), self._total, "bytes")

    def finish(self) -> None:
        """Tell that all is done, where the beginning was told."""
        if self._finish:
            self._rank.progress(self._what, self._total, self._total, "bytes")
