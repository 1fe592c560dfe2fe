"""What the supervisor of a rank asks about hangs and slow ranks. Standard library only."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from primus_core.rank.collectives import socket_name
from primus_core.rank.state import State
from primus_core.rank.stragglers import Fleet, Measure, Slow, Stragglers, pace_name
from primus_core.rank.watch import Rules, Subject, Watch

_STOPPED_SECONDS = 0.6
"""Between stopping a rank of a run that hangs and killing it: a rank that still ran would say that its peer is gone.
More than the parents' pause while they wait for a verdict."""


class Watchdog:
    """The watch over one rank's progress, and its part in the search for stragglers.

    Args:
        tell: writes a record of a level, for the console if it is a warning or an error.
    """

    def __init__(self, rules: Rules, subject: Subject, state: State, tell: Callable[[str, str], None]) -> None:
        self._rules = rules
        self._subject = subject
        self._state = state
        self._tell = tell
        self._watch = Watch(rules, subject, state, tell)
        self._stragglers = self._search() if rules.straggler_factor and subject.world_size > 1 else None
        self._phases = self._rows = 0
        self.verdict: Mapping[str, Any] | None = None
        """On the hang by which this rank was ended."""
        self._kill_at: float | None = None

    @property
    def milliseconds(self) -> float:
        """Until `look` is due."""
        if self._kill_at is not None:
            return max(self._kill_at - time.monotonic(), 0.0) * 1000
        return self._watch.milliseconds

    @property
    def speaks(self) -> bool:
        """Whether this rank is the one that tells of the hang, as its cause."""
        return self.verdict is not None and self._subject.rank in self.verdict["speaks"]

    def heard(self) -> None:
        """The rank's child has said something."""
        self._watch.heard()
        progress, state = self._state.progress, self._state
        if self._stragglers is None or progress.rows == self._rows:
            return
        if progress.phases != self._phases:
            self._stragglers.interrupted()
        self._phases, self._rows = progress.phases, progress.rows
        if progress.waited is not None and state.iteration is not None:
            self._stragglers.row(state.iteration, progress.moment, progress.waited)

    def look(self, *, last: bool = False) -> None:
        """Do what is due; a rank of a run that hangs is ended here.

        Args:
            last: the child has ended; a verdict that came meanwhile may say why.
        """
        if self.verdict is None:
            self.verdict = self._watch.verdict() if last else self._watch.look()
            if self.verdict is not None and not last:
                self._kill_at = time.monotonic() + _STOPPED_SECONDS
                self._signal(signal.SIGSTOP)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._signal(signal.SIGKILL)
        if self.verdict is not None and self.speaks:
            self._state.failure = _failure(self.verdict["problem"])

    def close(self) -> None:
        """Remove the files by which others find this rank."""
        for name in (socket_name(self._subject.rank), pace_name(self._subject.rank)):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._subject.folder, name))

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.killpg(self._subject.child, number)

    def _search(self) -> Stragglers:
        rules, subject = self._rules, self._subject
        fleet = Fleet(subject.world_size, rules.pipeline, rules.straggler_factor) if subject.rank == 0 else None
        measure = Measure(subject.rank, subject.host)
        return Stragglers(subject.folder, measure, fleet, self._tell_slow, rank=subject.rank, size=subject.world_size)

    def _tell_slow(self, slow: Slow) -> None:
        self._tell("warning", slow.text(self._rules.straggler_factor))
        self._state.stragglers.append(
            {
                "rank": slow.window.rank,
                "host": slow.window.host,
                "iteration": slow.window.iteration,
                "own_seconds": slow.window.own,
                "others_seconds": slow.others,
                "fleet_score": slow.fleet_score,
                "own_score": slow.own_score,
            }
        )


def _failure(problem: Mapping[str, str]) -> Mapping[str, Any]:
    """`primus_core.outcome.Failure` of the rank that is the cause."""
    return {
        "type": "RunError",
        "text": "\n".join(part for part in (problem["what"], problem["why"], problem["remedy"]) if part),
        "traceback": "",
        "problems": [problem],
        "at": problem["where"],
        "chain": [],
    }
