"""From the lines of a rank's log to its records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
_BEGINS = re.compile(f"{_TIME} ")
_STREAMS = ("stdout", "stderr")
_TRACE = " traceback="
_FIRST = re.compile(r"(\[rank\d+\]: ?)?[\s|+]*(Exception Group )?Traceback \(most recent call last\):")
_BETWEEN = re.compile(r"\s*$|During handling of the above exception|The above exception was the direct cause")


class Record(NamedTuple):
    """One record, with all lines that belong together."""

    time: str
    """UTC, as in the log: texts of this form sort by time."""
    host: str
    rank: int
    level: str
    source: str
    text: str
    """Event and values; of a traceback that was printed, its first line."""
    more: tuple[str, ...] = ()
    """The other lines of a traceback, without line ends."""

    @property
    def said(self) -> str:
        """Everything, in lines."""
        return "\n".join((self.text, *self.more))


class Reader:
    """Makes records of the lines of one rank.

    A record is known to be whole when the next begins: a traceback that a library printed is one record, though each
    of its lines has the time and source of its own, and a line that was longer than a file goes on in the next one.

    Args:
        run_id: records of other runs in the same file are left out.
    """

    def __init__(self, run_id: str, module: str) -> None:
        self._columns = re.compile(
            f"({_TIME}) {re.escape(run_id)} (\\S+) rank-(\\d+) {re.escape(module)} ([A-Z]+) (\\S+) (.*)", re.DOTALL
        )
        self._waiting: Record | None = None
        self._trace: _Trace | None = None

    def feed(self, lines: Iterable[bytes]) -> Iterator[Record]:
        """The records that these lines complete."""
        for line in lines:
            text = line.decode("utf-8", "backslashreplace")
            found = self._columns.fullmatch(text)
            if found is None and not _BEGINS.match(text):
                self._go_on(text)
                continue
            record = _record(found) if found else None
            if record and self._waiting and self._trace and self._trace.goes_on(record):
                self._waiting = self._waiting._replace(more=(*self._waiting.more, record.text))
                continue
            yield from self.rest()
            self._waiting, self._trace = record, _Trace.begun(record)

    def rest(self) -> Iterator[Record]:
        """The record that waits for its next line, where no more is to be expected."""
        if self._waiting:
            yield _with_traceback(self._waiting)
        self._waiting = self._trace = None

    def _go_on(self, text: str) -> None:
        """The rest of a line that was longer than a file."""
        if self._waiting:
            self._waiting = self._waiting._replace(text=self._waiting.text + text)


class _Trace:
    """Follows a traceback that is printed line by line."""

    def __init__(self, source: str, prefix: str) -> None:
        self._source = source
        self._prefix = prefix
        self._named = False
        """The line with the exception has come; only another traceback can follow."""

    @classmethod
    def begun(cls, record: Record | None) -> _Trace | None:
        first = _FIRST.match(record.text) if record and record.source in _STREAMS else None
        return cls(record.source, first[1] or "") if record and first else None

    def goes_on(self, record: Record) -> bool:
        if record.source != self._source or not record.text.startswith(self._prefix.rstrip()):
            return False
        text = record.text[len(self._prefix) :]
        if self._named:
            again = _FIRST.match(text) is not None
            self._named = not again
            return again or _BETWEEN.match(text) is not None
        self._named = text[:1] not in (" ", "\t", "")
        return True


def _record(found: re.Match[str]) -> Record:
    time, host, rank, level, source, text = found.groups()
    return Record(time, host, int(rank), level.lower(), source, text)


def _with_traceback(record: Record) -> Record:
    """A record that was logged with its traceback has it in lines."""
    text, mark, trace = record.text.rpartition(_TRACE)
    if not mark:
        return record
    try:
        lines = str(json.loads(trace)).rstrip("\n").split("\n")
    except ValueError:
        return record
    return record._replace(text=text, more=tuple(lines))
