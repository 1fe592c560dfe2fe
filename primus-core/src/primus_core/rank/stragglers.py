"""Finds ranks that are slower than the others. Standard library only.

In step with each other all ranks take the same time for an iteration: the early ones wait. So what counts is a rank's
own time, which is the iteration without the time that its code waited in collectives. Each rank's parent writes its
mean over a window of iterations to a file; rank 0's parent reads them all and compares.
"""

from __future__ import annotations

import contextlib
import json
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

_LEAST_STEPS = 10
_FIRST_SECONDS = 1.0
_LONGEST_SECONDS = 30.0
"""Of windows: each is twice as long as the one before, up to this."""
_WINDOWS = 2
"""In a row in which a rank has to be slow: one may be a collection of garbage or a checkpoint."""
_LEAST_SHARE = 0.05
"""Of an iteration that a rank must lose: three times nothing is nothing."""
_STALE_WINDOWS = 2


def pace_name(rank: int) -> str:
    """Of the file with a rank's latest window."""
    return f"rank-{rank}.pace"


class Window(NamedTuple):
    """One rank's mean over some iterations."""

    rank: int
    host: str
    number: int
    own: float
    """Seconds of an iteration in which it did not wait."""
    step: float
    """Seconds of an iteration."""
    iteration: int
    """The last one."""


class Slow(NamedTuple):
    """A rank that is slower than the others."""

    window: Window
    others: float
    """Median of the other ranks' own seconds."""
    best: float
    """Its own best."""

    @property
    def fleet_score(self) -> float:
        """1: as the others; 2: it needs twice their time."""
        return self.window.own / self.others

    @property
    def own_score(self) -> float:
        return self.window.own / self.best

    def text(self, factor: float) -> str:
        one = self.window
        history = "it became slow" if self.own_score >= factor else "it has been slow from the start"
        return (
            f"rank {one.rank} on {one.host} is slow: its own work takes {one.own:.3g} s an iteration, "
            f"{self.fleet_score:.1f} times that of the other ranks ({self.others:.3g} s), which wait for it; {history} "
            f"({self.own_score:.1f} times its best window), seen at iteration {one.iteration}"
        )


class Measure:
    """One rank's windows."""

    def __init__(self, rank: int, host: str) -> None:
        self._rank = rank
        self._host = host
        self._number = 0
        self._seconds = _FIRST_SECONDS
        self._start: tuple[int, float, float] | None = None

    def row(self, iteration: int, time: float, waited: float) -> Window | None:
        """An iteration ended; returns the window that it completes.

        Args:
            time: in seconds since the epoch.
            waited: seconds since the rank began.
        """
        if self._start is None:
            self._start = (iteration, time, waited)
            return None
        first, start, before = self._start
        steps, seconds = iteration - first, time - start
        if steps < _LEAST_STEPS or seconds < self._seconds:
            return None
        self._start = (iteration, time, waited)
        self._seconds = min(2 * self._seconds, _LONGEST_SECONDS)
        self._number += 1
        own = max(seconds - (waited - before), 0.0)
        return Window(self._rank, self._host, self._number, own / steps, seconds / steps, iteration)

    def interrupted(self) -> None:
        """Something else than iterations came between: the window begins anew."""
        self._start = None


class Fleet:
    """Rank 0's comparison of all ranks.

    Args:
        stages: of the pipeline: a rank is compared with those of its own stage, which do the same work; where it is
            alone there, with all.
        factor: how many times the others' time makes a rank slow.
    """

    def __init__(self, world_size: int, stages: int, factor: float) -> None:
        self._stage_size = max(world_size // max(stages, 1), 1)
        self._factor = factor
        self._best: dict[int, float] = {}
        self._in_row: dict[int, int] = {}

    def compare(self, windows: Iterable[Window]) -> list[Slow]:
        """The ranks that are found slow now, each once."""
        known = {window.rank: window for window in windows if window.own > 0}
        for rank, window in known.items():
            self._best[rank] = min(window.own, self._best.get(rank, window.own))
        slow = [found for found in self._scores(known) if self._is_slow(found)]
        now = {found.window.rank for found in slow}
        for rank in known:
            self._in_row[rank] = self._in_row.get(rank, 0) + 1 if rank in now else 0
        return [found for found in slow if self._in_row[found.window.rank] == _WINDOWS]

    def _scores(self, known: Mapping[int, Window]) -> Iterable[Slow]:
        everybody = sorted(window.own for window in known.values())
        stages: dict[int, list[float]] = {}
        for rank, window in known.items():
            stages.setdefault(rank // self._stage_size, []).append(window.own)
        alike = {stage: sorted(own) for stage, own in stages.items()}
        for rank, window in known.items():
            own = alike[rank // self._stage_size]
            yield Slow(window, _median_of_others(own if len(own) > 1 else everybody, window.own), self._best[rank])

    def _is_slow(self, found: Slow) -> bool:
        lost = found.window.own - found.others
        alone = self._stage_size == 1
        return (
            lost >= _LEAST_SHARE * found.window.step
            and found.fleet_score >= self._factor
            and (not alone or found.own_score >= self._factor)
        )


def _median_of_others(ordered: Sequence[float], one: float) -> float:
    """Of sorted figures, without one of them; that one itself where it is alone. With many ranks each takes no time."""
    if len(ordered) == 1:
        return one
    left, place = len(ordered) - 1, bisect_left(ordered, one)
    low, high = ((left - 1) // 2, left // 2)
    return (ordered[low + (low >= place)] + ordered[high + (high >= place)]) / 2


class Stragglers:
    """A rank's part in finding them.

    Args:
        folder: of the ranks' files.
        tell: is given each slow rank once, in rank 0's parent.
    """

    def __init__(
        self, folder: str, measure: Measure, fleet: Fleet | None, tell: Callable[[Slow], None], *, rank: int, size: int
    ) -> None:
        self._folder = folder
        self._measure = measure
        self._fleet = fleet
        self._tell = tell
        self._rank = rank
        self._size = size
        self._written: Window | None = None
        """The window that the last iteration completed."""

    def row(self, iteration: int, time: float, waited: float) -> None:
        if self._fleet is not None and self._written is not None:  # an iteration later, when all have written theirs
            for slow in self._fleet.compare(self._windows(self._written.number)):
                self._tell(slow)
        self._written = self._measure.row(iteration, time, waited)
        if self._written is not None:
            self._write(self._written)

    def interrupted(self) -> None:
        self._measure.interrupted()

    def _write(self, window: Window) -> None:
        """Without waiting for the disk: the next window replaces it. Who cannot write is not compared."""
        path = self._path(self._rank)
        with contextlib.suppress(OSError):
            with open(f"{path}.tmp", "w", encoding="utf-8") as file:
                json.dump(window, file)
            os.replace(f"{path}.tmp", path)

    def _windows(self, number: int) -> Iterable[Window]:
        for rank in range(self._size):
            window = _read(self._path(rank))
            if window is not None and abs(window.number - number) <= _STALE_WINDOWS:
                yield window

    def _path(self, rank: int) -> str:
        return os.path.join(self._folder, pace_name(rank))


def _read(path: str) -> Window | None:
    try:
        with open(path, encoding="utf-8") as file:
            found: Any = json.load(file)
        return Window(*found)
    except (OSError, ValueError, TypeError):
        return None
