"""Durations, times and sizes as people say them. Standard library only: the rank's parent uses it."""

from __future__ import annotations

import time
from collections.abc import Sequence


def duration(seconds: float) -> str:
    """``9 s``, ``4 min 10 s``, ``2 h 05 min``, ``3 d 04 h``."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours < 48 else f"{hours // 24} d {hours % 24:02d} h"


def utc_time(seconds: float) -> str:
    """Seconds since the epoch as ``2026-01-31 09:30:00 UTC``."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def memory_size(count: int) -> str:
    """Bytes of memory or disk in binary units: ``999 bytes``, ``3.2 GiB``."""
    return _scaled(count, 1024, ("KiB", "MiB", "GiB", "TiB"))


def text_size(count: int) -> str:
    """Bytes of a text or a download in decimal units: ``999 bytes``, ``4.6 MB``."""
    return _scaled(count, 1000, ("kB", "MB", "GB", "TB"))


def _scaled(count: int, step: int, units: Sequence[str]) -> str:
    """In the smallest unit whose figure, as it is printed, is below a step."""
    if count < step:
        return f"{count} byte{'s' * (count != 1)}"
    sizes = [(count / step**power, unit) for power, unit in enumerate(units, 1)]
    size, unit = next((one for one in sizes if round(one[0], 1) < step), sizes[-1])
    return f"{size:.1f} {unit}"
