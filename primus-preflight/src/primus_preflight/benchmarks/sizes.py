"""Sizes of messages as people write them, and sweeps of them."""

from __future__ import annotations

import re
from typing import Literal

from primus_core.errors import ConfigError

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)


def parse_bytes(text: str, option: str) -> int:
    """``1K`` is 1024 bytes, ``128M``, ``0.5G``.

    Raises:
        ConfigError: it is no size of a byte or more.
    """
    found = _SIZE.fullmatch(text.strip())
    size = int(float(found[1]) * _UNITS[found[2].lower()]) if found else 0
    if size < 1:
        raise ConfigError(f"{text!r} is no size", where=option, remedy="write bytes, or 1K, 64M, 2G (powers of 1024)")
    return size


def parse_list(text: str, option: str) -> list[str]:
    """Words between commas; none is empty.

    Raises:
        ConfigError: there is no word.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise ConfigError(f"{option} names nothing", remedy=f"{option} A,B")
    return words


def sweep(least: int, most: int, count: int, scale: Literal["log2", "linear"]) -> list[int]:
    """Sizes from the least to the most, both among them, rising; equal ones once.

    Args:
        scale: equal ratios between them (``log2``), or equal steps.

    Raises:
        ConfigError: the most is below the least, or there are to be none.
    """
    if most < least:
        raise ConfigError(
            f"--max-bytes {most} is below --min-bytes {least}", remedy="give the smaller one to --min-bytes"
        )
    if count < 1:
        raise ConfigError(f"--num-sizes {count}", why="a sweep has sizes", remedy="give 1 or more")
    if count == 1:
        return [most]
    shares = [index / (count - 1) for index in range(count)]
    if scale == "log2":
        return sorted({round(least * (most / least) ** share) for share in shares})
    return sorted({round(least + (most - least) * share) for share in shares})
