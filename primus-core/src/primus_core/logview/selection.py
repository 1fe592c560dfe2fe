"""What a user wants to see of the logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from attrs import frozen

from primus_core.errors import ConfigError
from primus_core.log.levels import LEVELS
from primus_core.logview.records import Record

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_CLOCK = re.compile(r"\d\d?:\d\d(:\d\d(\.\d+)?)?")


@frozen(kw_only=True)
class Selection:
    """Of which ranks which records."""

    ranks: Callable[[int], bool] = lambda rank: True
    level: str = "info"
    """This one and those above."""
    since: str | None = None
    """A record's time as a log has it."""
    pattern: re.Pattern[str] | None = None
    """Searched in event, values and traceback."""

    def wants(self, record: Record) -> bool:
        if self.since is not None and record.time < self.since:
            return False
        return self.pattern is None or self.pattern.search(record.said) is not None


def some_ranks(text: str) -> Callable[[int], bool]:
    """Whether a rank is one of ``3,7-9``.

    Raises:
        ConfigError: it is no list of ranks.
    """
    ranges = [re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip()) for part in text.split(",")]
    wanted = [(int(one[1]), int(one[2] or one[1])) for one in ranges if one]
    if len(wanted) < len(ranges) or any(first > last for first, last in wanted):
        raise ConfigError(f"--rank {text}", why="it is no list of ranks", remedy="write `--rank 3,7-9`")
    return lambda rank: any(first <= rank <= last for first, last in wanted)


def known_level(text: str) -> str:
    """The level of a name in any case.

    Raises:
        ConfigError: there is no such level.
    """
    if text.lower() not in LEVELS:
        raise ConfigError(f"--level {text}", why="there is no such level", remedy=f"one of {', '.join(LEVELS)}")
    return text.lower()


def moment(text: str, now: datetime) -> str:
    """A time as a log has it, from a duration before now (``10m``, ``1h30m``, ``2d``), a time of day (its latest
    occurrence), or a date with or without time (ISO 8601). Without a zone it is UTC, as in the logs.

    Raises:
        ConfigError: it is none of these.
    """
    try:
        return stamp(_moment(text.strip(), now))
    except (ValueError, OverflowError):
        raise ConfigError(
            f"--since {text}", why="it is no time", remedy="write `10m`, `09:30` or `2026-01-31T09:30:00` (UTC)"
        ) from None


def stamp(when: datetime) -> str:
    """``2026-01-31T09:30:00.123Z``."""
    utc = when.astimezone(timezone.utc)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"


def _moment(text: str, now: datetime) -> datetime:
    if _DURATION.fullmatch(text):
        return now - timedelta(seconds=sum(float(count) * _SECONDS[unit] for count, unit in _PART.findall(text)))
    if _CLOCK.fullmatch(text):
        today = datetime.fromisoformat(f"{now:%Y-%m-%d}T{text.zfill(5) if len(text) < 6 else text}+00:00")
        return today if today <= now else today - timedelta(days=1)
    given = datetime.fromisoformat(re.sub("[Zz]$", "+00:00", text))
    return given if given.tzinfo else given.replace(tzinfo=timezone.utc)
