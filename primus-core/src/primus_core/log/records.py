"""How a record looks in a log file: one line, fixed columns, then the event and its values.

``2026-01-31T09:30:00.123Z RUN_ID HOST rank-0 MODULE INFO SOURCE event key=value key="two words"``
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
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
    column = "_".join(source.split()) or "-"
    return f"{utc(seconds)} {origin.run_id} {origin.host} rank-{origin.rank} {origin.module} {level.upper()} {column} "


def body(event: str, values: Mapping[str, Any]) -> str:
    """The event and its values in one line."""
    return " ".join([one_line(event), *(f"{key}={quoted(value)}" for key, value in values.items())])


def quoted(value: object) -> str:
    """A value after ``key=``: bare where that is unambiguous, else as JSON."""
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) and value.isprintable() else to_json(value)
    return to_json(value).strip('"') if isinstance(value, float) else to_json(value)


def one_line(text: str) -> str:
    r"""Without colours and cursor movements; line breaks and other control characters as ``\n``, ``\x07``."""
    if not _CONTROL.search(text):
        return text
    return _CONTROL.sub(_escaped, _SEQUENCE.sub("", text))


def utc(seconds: float) -> str:
    """``2026-01-31T09:30:00.123Z``."""
    whole, thousandths = divmod(int(seconds * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{thousandths:03d}Z"


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    return {"\n": r"\n", "\r": r"\r"}.get(character, f"\\x{ord(character):02x}")
