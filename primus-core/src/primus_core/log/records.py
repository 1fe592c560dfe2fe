"""How a record looks in a log file: one line, fixed columns, then the event and its values.

``2026-01-31T09:30:00.123Z RUN_ID HOST rank-0 MODULE INFO SOURCE event key=value key="two words"``
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from primus_core.log.events import to_json

_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BARE = re.compile(r"""[^\s"'=\\]+""")


class Origin(NamedTuple):
    """What all records of one rank have in common."""

    run_id: str
    host: str
    rank: int
    module: str


def head(origin: Origin, seconds: float, level: str, source: str) -> str:
    """The columns before the event, with the space that follows them.

    Args:
        seconds: since the epoch; written in UTC to the millisecond.
        source: logger, ``stdout`` or ``stderr``.
    """
    return utc(seconds) + _columns(origin, level, source)


def body(event: str, values: str, traceback: str | None = None) -> str:
    """What follows the columns, from the fields of a record event."""
    text = f"{event} {values}" if values else event
    return text if traceback is None else f"{text} traceback={traceback}"


def record(level: str, event: str, source: str, values: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The event of a record. It is put into words where it is made: values may be objects that nobody else knows."""
    made = {"kind": "record", "t": seconds, "level": level, "source": source, "event": one_line(event)}
    made["values"] = " ".join([f"{key}={quoted(value)}" for key, value in values.items() if key != "traceback"])
    if "traceback" in values:
        made["traceback"] = quoted(values["traceback"])
    return made


def quoted(value: object) -> str:
    """A value after ``key=``: bare where that is unambiguous, else as JSON."""
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return repr(value)
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) and value.isprintable() else to_json(value)
    text = to_json(value)
    return quoted(json.loads(text)) if text.startswith('"') else text


def one_line(text: str) -> str:
    r"""Without colours and cursor movements; line breaks and other control characters as ``\n``, ``\x07``."""
    if not _CONTROL.search(text):
        return text
    return _CONTROL.sub(_escaped, _SEQUENCE.sub("", text))


def utc(seconds: float) -> str:
    """``2026-01-31T09:30:00.123Z``."""
    whole, thousandths = divmod(int(seconds * 1000), 1000)
    return f"{_second(whole)}.{thousandths:03d}Z"


@lru_cache(maxsize=4)
def _second(whole: int) -> str:
    """Many records share a second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))


@lru_cache(maxsize=256)
def _columns(origin: Origin, level: str, source: str) -> str:
    """What follows the time; few loggers say most of what is said."""
    column = "_".join(source.split()) or "-"
    return f" {origin.run_id} {origin.host} rank-{origin.rank} {origin.module} {level.upper()} {column} "


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    return {"\n": r"\n", "\r": r"\r"}.get(character, f"\\x{ord(character):02x}")
