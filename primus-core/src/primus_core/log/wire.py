r"""Records on their way from a rank's child to its parent: the line of the log file itself, in three pieces.

``\x1d{level}{time}\x1f{LEVEL} {source} \x1c{event}\x1c{ key=value ...}\x1c{ traceback="..."}\n``, in UTF-8. The child,
who knows what it says, writes the words once; the parent, who knows where, completes any number of lines at once by
replacing the marks. None of them can be part of what is said: control characters are escaped there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from primus_core.log.levels import LEVELS, strength
from primus_core.log.records import one_line, quoted, utc, utf8

MARK = b"\x1d"
"""How the line of a record begins; the digit of its level follows."""
_ORIGIN = b"\x1f"
_PART = b"\x1c"
_HEAD = len("\x1d1")
_LEVEL_OF = {str(number).encode(): level for number, level in enumerate(LEVELS)}
_kind = itemgetter(slice(0, _HEAD))


def encode_record(level: str, event: str, source: str, values: Mapping[str, Any], seconds: float) -> bytes:
    """The line of a record. It is put into words where it is made: values may be objects that nobody else knows.

    Args:
        source: the logger.
        values: what follows the event as ``key=value``; ``traceback`` comes last, and never on a console.
        seconds: since the epoch.
    """
    said = "".join([f" {key}={quoted(value)}" for key, value in values.items() if key != "traceback"])
    if not (event.isprintable() and said.isprintable()):
        event, said = one_line(event), one_line(said)
    trace = f" traceback={quoted(values['traceback'])}" if "traceback" in values else ""
    start, names = _frame(level, source)
    return utf8(f"{start}{utc(seconds)}{names}{event}\x1c{said}\x1c{trace}\n")


class Run(NamedTuple):
    """Lines without their ends that arrived one after the other and are of one kind."""

    level: str | None
    """Of records; None: they are no records."""
    lines: list[bytes]


def runs(lines: Iterable[bytes]) -> Iterable[Run]:
    """What arrived, in order, cut where the level changes. Torn records are no records."""
    for kind, group in groupby(lines, _kind):
        if kind[:1] != MARK or kind[1:] not in _LEVEL_OF:
            yield Run(None, list(group))
            continue
        level, some = _LEVEL_OF[kind[1:]], list(group)
        if _whole(some):
            yield Run(level, some)
        else:
            yield from (Run(level if _whole([line]) else None, [line]) for line in some)


def completed(run: Run, columns: bytes) -> bytes:
    """The lines as the log file has them, without the end of the last.

    Args:
        columns: `Origin.columns` in UTF-8.
    """
    text = b"\n".join(run.lines)
    return text.replace(text[:_HEAD], b"").replace(_ORIGIN, columns).replace(_PART, b"")


class Parts(NamedTuple):
    """One record, taken apart."""

    head: str
    """The columns before the event, with the space that follows them."""
    source: str
    event: str
    values: str
    traceback: str
    """With ``traceback=``; empty where there is none."""

    @property
    def body(self) -> str:
        """What follows the columns."""
        return self.event + "".join(f" {part}" for part in (self.values, self.traceback) if part)


def parts(line: bytes, columns: bytes) -> Parts:
    """Take the line of a record apart, one of `runs`.

    Args:
        columns: as in `completed`.
    """
    head, event, values, trace = line[_HEAD:].decode("utf-8").split("\x1c")
    source = head.rsplit(" ", 2)[1]
    return Parts(head.replace("\x1f", columns.decode("utf-8")), source, event, values[1:], trace[1:])


def event_of(line: bytes) -> str:
    """What a record says, without its values."""
    return line.split(_PART, 2)[1].decode("utf-8")


def _whole(lines: Sequence[bytes]) -> bool:
    """Two processes that write long lines at once tear them: then there are too many or too few marks."""
    text, count = b"\n".join(lines), len(lines)
    return text.count(MARK) == text.count(_ORIGIN) == count and text.count(_PART) == 3 * count


@lru_cache(maxsize=256)
def _frame(level: str, source: str) -> tuple[str, str]:
    """What stands before and after the time; few loggers say most of what is said."""
    name = "_".join(one_line(source).split()) or "-"
    return f"\x1d{strength(level)}", f"\x1f{LEVELS[strength(level)].upper()} {name} \x1c"
