"""The four levels of a record."""

from __future__ import annotations

from functools import lru_cache

LEVELS = ("debug", "info", "warning", "error")
"""Weakest first; each has a log file that holds its own records and those of the stronger ones."""

_OTHER_NAMES = {"notset": "debug", "warn": "warning", "critical": "error", "fatal": "error", "exception": "error"}


@lru_cache(maxsize=64)
def strength(level: str) -> int:
    """0 for ``debug`` to 3 for ``error``, whatever the case; a name that nobody knows counts as ``info``."""
    name = _OTHER_NAMES.get(level.lower(), level.lower())
    return LEVELS.index(name) if name in LEVELS else 1


def level_of(number: int) -> str:
    """The level of a number of Python's `logging`: 10 is ``debug``, 20 ``info``, 30 ``warning``, 40 ``error``."""
    return LEVELS[min(max(number // 10 - 1, 0), 3)]


def number_of(level: str) -> int:
    """The number that `logging` has for a level, whatever the case; a name that is none lets everything pass."""
    return 10 * (1 + strength(level)) if level.lower() in LEVELS else 10
