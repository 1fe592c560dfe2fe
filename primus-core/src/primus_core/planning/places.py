"""Words for many parameters at once, in a finding that stands at the first one's line."""

from __future__ import annotations

from collections.abc import Sequence

_MOST = 12


def at_their_places(told: Sequence[tuple[str, str]]) -> list[str]:
    """What is told of each parameter with its place, ``file:line``; beyond a dozen, how many more there are.

    In the file of the first one, the line is enough.
    """
    shown = [f"{words} ({_place(origin, told[0][1])})" for words, origin in told[:_MOST]]
    return shown if len(told) <= _MOST else [*shown, f"and {len(told) - _MOST} more"]


def parameters_have(count: int) -> str:
    return "1 parameter has" if count == 1 else f"{count} parameters have"


def _place(origin: str, known: str) -> str:
    """``line 20`` in the file that is named already, else ``file:line``."""
    file, _, line = origin.rpartition(":")
    return f"line {line}" if file and file == known.rpartition(":")[0] else origin
