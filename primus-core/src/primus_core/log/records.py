"""How a record looks in a log file: one line, fixed columns, then the event and its values.

``2026-01-31T09:30:00.123Z RUN_ID HOST rank-0 MODULE INFO SOURCE event key=value key="two words"``
"""

from __future__ import annotations

import json
import math
import re
import time
from functools import lru_cache
from typing import NamedTuple

from primus_core.log.events import to_json

_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Origin(NamedTuple):
    """What all records of one rank have in common."""

    run_id: str
    host: str
    rank: int
    module: str

    @property
    def columns(self) -> str:
        """What stands between time and level, with the spaces around it."""
        return f" {self.run_id} {self.host} rank-{self.rank} {self.module} "


def head(origin: Origin, seconds: float, level: str, source: str) -> str:
    """The columns before the event, with the space that follows them.

    Args:
        seconds: since the epoch; written in UTC to the millisecond.
        source: logger, ``stdout`` or ``stderr``.
    """
    return f"{utc(seconds)}{origin.columns}{level.upper()} {source} "


def quoted(value: object) -> str:
    """A value after ``key=``: bare where that is unambiguous, else as JSON."""
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return repr(value)
    if isinstance(value, str):
        return value if _is_bare(value) else to_json(value)
    text = to_json(value)
    return quoted(json.loads(text)) if text.startswith('"') else text


def _is_bare(value: str) -> bool:
    """One word without quotes. No white space but the blank is printable; asking thus takes a fifth of a regex."""
    return (
        value.isprintable()
        and value != ""
        and " " not in value
        and '"' not in value
        and "'" not in value
        and "=" not in value
        and "\\" not in value
    )


def one_line(text: str) -> str:
    r"""Without colours and cursor movements; line breaks and other control characters as ``\n``, ``\x07``."""
    if not _CONTROL.search(text):
        return text
    return _CONTROL.sub(_escaped, _SEQUENCE.sub("", text))


def utf8(text: str) -> bytes:
    """Text as a file or console has it: what is no Unicode, of a path with odd bytes, becomes readable."""
    return text.encode("utf-8", "backslashreplace")


def utc(seconds: float) -> str:
    """``2026-01-31T09:30:00.123Z``."""
    return _utc(int(seconds * 1000))


@lru_cache(maxsize=4)
def _utc(milliseconds: int) -> str:
    """Where much is said, many records share a millisecond."""
    whole, thousandths = divmod(milliseconds, 1000)
    return f"{_second(whole)}.{thousandths:03d}Z"


@lru_cache(maxsize=4)
def _second(whole: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    return {"\n": r"\n", "\r": r"\r"}.get(character, f"\\x{ord(character):02x}")
