"""How long a rank may go without progress before that is a stall. Standard library only."""

from __future__ import annotations

import statistics
from collections import deque

LEAST_SECONDS = 300.0
"""Of a learnt limit: a slow disk or a collection of garbage is no hang, and to end a run wrongly is worse than to end
it late. Less than the 600 s after which NCCL ends a process by itself, without saying who was missing."""
APART_SECONDS = 900.0
"""Least limit of a phase between iterations: an evaluation, or a checkpoint on a file system that is busy."""
_MEDIANS = 10
_LONGEST = 3
_VISITS = 10
_REMEMBERED = 128


class Limits:
    """Learns from one rank's own steps and phases.

    Args:
        fixed: the limit of a step in seconds that the user has set; None: learn it.
    """

    def __init__(self, fixed: float | None) -> None:
        self._fixed = fixed
        self._steps: deque[float] = deque(maxlen=_REMEMBERED)
        self._visits: dict[str, float] = {}

    def learn_step(self, seconds: float) -> None:
        """An iteration took so long."""
        self._steps.append(seconds)

    def learn_phase(self, phase: str, seconds: float) -> None:
        """A phase between iterations took so long."""
        self._visits[phase] = max(seconds, self._visits.get(phase, 0.0))

    @property
    def step(self) -> float:
        """Seconds that an iteration may take: ten medians, and three times the longest of the last ones."""
        if self._fixed is not None:
            return self._fixed
        if not self._steps:
            return LEAST_SECONDS
        return max(LEAST_SECONDS, _MEDIANS * statistics.median(self._steps), _LONGEST * max(self._steps))

    def apart(self, phase: str) -> float:
        """Seconds that a phase between iterations may take: ten times its longest so far, never less than a step."""
        return max(APART_SECONDS, self.step, _VISITS * self._visits.get(phase, 0.0))
