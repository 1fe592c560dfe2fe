"""How long a step takes, for an estimate of the time left that does not jump."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SHARE = 0.1
"""Weight of the latest step: the average is over about the last ten."""


class Pace:
    """The average of the recent steps of one run.

    The first step, which warms everything up, counts only until there is another.
    """

    def __init__(self) -> None:
        self._steps = 0
        self.step_seconds: float | None = None
        """None before the first step whose time is known."""

    def follow(self, row: Mapping[str, Any]) -> float | None:
        """Take in a row of ``metrics.jsonl``; returns seconds per step."""
        seconds = row.get("step_seconds")
        if isinstance(seconds, int | float):
            share = max(_SHARE, 1 / max(1, self._steps))
            before = self.step_seconds or 0.0
            self.step_seconds = before + share * (seconds - before)
            self._steps += 1
        return self.step_seconds
