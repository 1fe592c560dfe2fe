"""The records of many ranks: merged by time, rank after rank, or as they come."""

from __future__ import annotations

import heapq
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from operator import attrgetter

from attrs import define, field, frozen

from primus_core.logview.records import Reader, Record
from primus_core.logview.segments import RankLog
from primus_core.logview.selection import Selection, stamp

_CHUNK_BYTES = (1 << 12, 1 << 18)
_MEMORY_BYTES = 1 << 24
"""Shared by the chunks of all ranks."""
_POLL_SECONDS = 0.2
_QUIET_POLLS = 5
"""Of a run that has ended: its report is there for a moment, too, when it is started anew."""
_SETTLE_SECONDS = 0.3
"""How long a record waits for older ones of other ranks while a log is followed."""
_SCAN_SECONDS = 1.0
_SKEW = timedelta(minutes=10)
"""By how much the clocks of hosts may differ."""
_DISORDER = timedelta(seconds=5)
"""A rank's lines are in the order in which they arrived, which is nearly that of their times."""
_by_time = attrgetter("time")


@frozen(kw_only=True)
class Logs:
    """The logs of one module of a run.

    Args:
        folder: ``logs/{module}``.
    """

    folder: str
    run_id: str
    module: str
    selection: Selection

    def ranks(self) -> list[int]:
        """The ranks that are wanted and have a log, in order."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        numbers = [int(name[5:]) for name in names if re.fullmatch(r"rank-\d+", name)]
        return sorted(filter(self.selection.ranks, numbers))

    def open(self, rank: int) -> RankStream:
        log = RankLog(os.path.join(self.folder, f"rank-{rank}", f"{self.selection.level}.log"))
        earliest = _earliest(self.run_id, self.selection.since)
        if earliest:
            log.skip_to(earliest)
        return RankStream(log=log, reader=Reader(self.run_id, self.module), selection=self.selection)


@define
class RankStream:
    """The wanted records of one rank."""

    log: RankLog
    reader: Reader
    selection: Selection

    def history(self, chunk: int) -> Iterator[Record]:
        """All that are complete now, read as they are asked for."""
        while (lines := self.log.lines(chunk)) is not None:
            yield from filter(self.selection.wants, self.reader.feed(lines))

    def rest(self) -> Iterator[Record]:
        """The last, when no more is to be expected at once."""
        yield from filter(self.selection.wants, self.reader.rest())

    def whole(self, chunk: int) -> Iterator[Record]:
        """All, also what is in a line that was not ended."""
        yield from self.history(chunk)
        yield from filter(self.selection.wants, self.reader.feed(self.log.rest()))
        yield from self.rest()


def merged(logs: Logs) -> Iterator[Record]:
    """All records, by time; at equal times by rank. A rank's own records stay in its order."""
    streams = [logs.open(rank) for rank in logs.ranks()]
    return heapq.merge(*(stream.whole(_chunk(len(streams))) for stream in streams), key=_by_time)


def one_by_one(logs: Logs) -> Iterator[Record]:
    """All records of the first rank, then those of the next."""
    for rank in logs.ranks():
        yield from logs.open(rank).whole(_chunk(1))


@define
class Follower:
    """What is there, and then what comes, until the run has ended.

    Args:
        ended: whether the run has ended.
        merge: by time, within what comes within a moment; else as it comes.
    """

    logs: Logs
    ended: Callable[[], bool]
    merge: bool = True
    _streams: dict[int, RankStream] = field(factory=dict)
    _held: list[tuple[float, Record]] = field(factory=list)
    _scanned: float = 0.0

    def batches(self) -> Iterator[Iterable[Record]]:
        """What is to be shown now; each as soon as it is known."""
        self._scan()
        chunk = _chunk(len(self._streams))
        history = [stream.history(chunk) for stream in self._streams.values()]
        yield heapq.merge(*history, key=_by_time) if self.merge else (one for past in history for one in past)
        quiet = 0
        while quiet < _QUIET_POLLS:
            over = self.ended()  # asked before reading: what a run says it says before it has ended
            self._scan()
            came = self._poll()
            yield self._settled(everything=False)
            quiet = quiet + 1 if over and not came else 0
            if quiet < _QUIET_POLLS:
                time.sleep(_POLL_SECONDS)
        yield self._settled(everything=True)

    def _scan(self) -> None:
        """Ranks may begin at any time."""
        now = time.monotonic()
        if self._scanned and now - self._scanned < _SCAN_SECONDS:
            return
        self._scanned = now
        for rank in self.logs.ranks():
            if rank not in self._streams:
                self._streams[rank] = self.logs.open(rank)

    def _poll(self) -> bool:
        """Read what came; False when nothing did."""
        now, before = time.monotonic(), len(self._held)
        for _, stream in sorted(self._streams.items()):
            records = list(stream.history(_chunk(len(self._streams))))
            self._held += [(now, record) for record in records or stream.rest()]
        return len(self._held) > before

    def _settled(self, *, everything: bool) -> list[Record]:
        """What has waited long enough, and what came later and is older than that."""
        due = time.monotonic() - _SETTLE_SECONDS
        waited = [record for arrived, record in self._held if everything or not self.merge or arrived <= due]
        if not self.merge or not waited:
            self._held = self._held[len(waited) :]
            return waited
        last = max(record.time for record in waited)
        ready = [record for _, record in self._held if record.time <= last]
        self._held = [(arrived, record) for arrived, record in self._held if record.time > last]
        return sorted(ready, key=_by_time)


def _chunk(ranks: int) -> int:
    """Bytes to read of a rank at once."""
    least, most = _CHUNK_BYTES
    return max(least, min(most, _MEMORY_BYTES // max(ranks, 1)))


def _earliest(run_id: str, since: str | None) -> str | None:
    """A time before which nothing that is wanted was logged: a run id of Primus' own begins with its run's time."""
    begun = re.fullmatch(r"(\d{8}-\d{6})-[0-9a-f]{6}", run_id)
    if since is not None:
        return stamp(datetime.strptime(since, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc) - _DISORDER)
    return stamp(datetime.strptime(begun[1], "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc) - _SKEW) if begun else None
