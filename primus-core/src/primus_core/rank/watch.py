"""The watchdog of a rank, in its parent: notices that nothing goes on any more. Standard library only.

Progress is an iteration, a new phase, or a report of progress. Between iterations a rank may be in a phase of its own,
such as an evaluation or a save, for which there are other limits; ranks that meanwhile wait for it stay without
progress, ask, and learn that somebody is busy.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from primus_core.rank import standing
from primus_core.rank.answers import Answer
from primus_core.rank.inquiry import Inquiry
from primus_core.rank.limits import Limits
from primus_core.rank.stacks import Stacks
from primus_core.rank.stalltext import verdict_of
from primus_core.rank.state import State

_OPEN_SECONDS = 0.2
_SOONEST, _LATEST = 0.2, 5.0
"""Seconds between two looks: while an inquiry is open, and else at least and at most."""
_SHARE = 8
_NEVER = 1e9
_START_PATIENCE = 4
"""By what the time before the next word on a start that is slow in the same phase grows."""


class Rules(NamedTuple):
    """What the user has set."""

    hang_seconds: float | None = None
    """None: learnt; 0: there is no watch."""
    start_seconds: float = 300.0
    """0: a slow start is not told."""
    ends: bool = True
    """A hang ends the run; else it is told."""
    trains: bool = True
    """The task has iterations, so a start without any is worth a word."""
    straggler_factor: float = 1.5
    """0: stragglers are not looked for."""
    pipeline: int = 1
    """Stages."""


def rules_of(plan: Mapping[str, Any]) -> Rules:
    """From a plan as JSON has it."""
    settings, usual = plan["settings"]["values"], Rules()
    hang, start = settings.get("hang_timeout_seconds"), settings.get("startup_stall_seconds")
    factor = settings.get("straggler_factor")
    return Rules(
        hang_seconds=None if hang is None else float(hang),
        start_seconds=usual.start_seconds if start is None else float(start),
        ends=settings.get("hang_action", "end") != "tell",
        trains=plan["task"]["kind"] == "train",
        straggler_factor=usual.straggler_factor if factor is None else float(factor),
        pipeline=int((plan["translation"] or {}).get("layout", {}).get("pipeline", 1)),
    )


class Subject(NamedTuple):
    """The rank that is watched."""

    rank: int
    world_size: int
    host: str
    folder: str
    """Of the ranks' files."""
    child: int
    handle: int
    """A descriptor of the process."""
    stacks: Stacks


class Watch:
    """Watches one rank.

    Args:
        tell: writes a record of a level, for the console if it is a warning or an error.
    """

    def __init__(self, rules: Rules, subject: Subject, state: State, tell: Callable[[str, str], None]) -> None:
        self._rules = rules
        self._subject = subject
        self._state = state
        self._tell = tell
        self._limits = Limits(rules.hang_seconds or None)
        self._inquiry = Inquiry(subject.folder, subject.rank, subject.world_size)
        self._start_seconds = rules.start_seconds
        self._seen = state.progress.mark
        self._progress = self._entered = self._asked = time.monotonic()
        self._phase, self._answered = state.phase, self._seen
        self._next = 0.0

    @property
    def milliseconds(self) -> float:
        """Until the next look."""
        return max(self._next - time.monotonic(), 0.0) * 1000

    def heard(self) -> None:
        """The rank has said something; if that was progress, learn from it."""
        mark = self._state.progress.mark
        if mark == self._seen:
            return
        now = time.monotonic()
        phases, rows, _ = (new - old for new, old in zip(mark, self._seen, strict=True))
        if rows and not phases and self._seen[1]:
            self._limits.learn_step((now - self._progress) / rows)
        if rows:
            self._iterating = self._state.phase
        if phases:
            self._enter(self._state.phase, now)
        self._seen, self._progress = mark, now

    def _enter(self, phase: str, now: float) -> None:
        if self._phase != self._state.progress.iterating:
            self._limits.learn_phase(self._phase, now - self._entered)
        self._phase, self._entered = phase, now
        self._start_seconds = self._rules.start_seconds

    def look(self) -> Mapping[str, Any] | None:
        """Do what is due; returns the verdict on a hang, which all ranks get."""
        now = time.monotonic()
        if now < self._next:
            return None
        found = self._look(now)
        pause = _OPEN_SECONDS if self._inquiry.is_open else min(max(self._limit / _SHARE, _SOONEST), _LATEST)
        self._next = time.monotonic() + pause
        return found

    def _look(self, now: float) -> Mapping[str, Any] | None:
        if not self._inquiry.is_open and self._is_suspect(now):
            self._asked = now
            self._inquiry.open()
        if self._inquiry.is_asked():
            self._answered = self._seen
            self._inquiry.answer(self._answer())
        elif self._inquiry.is_open and self._answered != self._seen:
            self._answered = self._seen
            self._inquiry.moved()
        elif (answers := self._inquiry.answers()) is not None:  # not before all could have taken theirs back
            self._decide(answers)
        return self.verdict()

    def verdict(self) -> Mapping[str, Any] | None:
        """The judge's, if it has come and ends the run."""
        found = self._inquiry.verdict()
        return self._heed(found) if found else None

    def _is_suspect(self, now: float) -> bool:
        """Once for each limit that passes: what was found to be none is not asked about again at once."""
        return now - max(self._progress, self._asked) > self._limit

    @property
    def _limit(self) -> float:
        if self._state.done:
            return _NEVER
        if not self._state.progress.rows:
            return self._start_seconds if self._rules.trains and self._start_seconds else _NEVER
        if self._rules.hang_seconds == 0:
            return _NEVER
        return self._limits.step if self._phase == self._state.progress.iterating else self._limits.apart(self._phase)

    def _answer(self) -> Answer:
        subject, state = self._subject, self._state
        steps = state.phase == state.progress.iterating or not state.progress.rows
        limit = self._limit
        return Answer(
            rank=subject.rank,
            host=subject.host,
            phase=state.phase,
            iteration=state.iteration,
            idle=time.monotonic() - self._progress,
            # those that wait for one another do not stop at the same moment
            limit=limit / 2 if steps else limit,
            state=standing.process_state(subject.child),
            stack=standing.stack_of(subject.handle, subject.stacks),
            calls=standing.calls_of(subject.folder, subject.rank),
            groups=state.progress.groups,
        )

    def _decide(self, answers: Mapping[int, Answer]) -> None:
        kind = "hang" if self._state.progress.rows else "start"
        silent = set(range(self._subject.world_size)) - set(answers)
        ended = {rank: text for rank in silent if (text := self._how_ended(rank))}
        verdict = verdict_of(kind, answers, self._subject.world_size, ended, self._subject.folder)
        if verdict["kind"] == "hang":
            self._tell("error", str(verdict["text"]))
        elif verdict["kind"] == "start":
            self._tell("warning", str(verdict["text"]))
        self._inquiry.decide(verdict)

    def _heed(self, verdict: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if verdict.get("kind") == "start":
            self._start_seconds *= _START_PATIENCE
        if verdict.get("kind") != "hang":
            return None
        self._state.stall = verdict["stall"]
        return verdict if self._rules.ends else None

    def _how_ended(self, rank: int) -> str:
        """From the report that it left."""
        try:
            with open(os.path.join(self._subject.folder, f"rank-{rank}.json"), encoding="utf-8") as file:
                report = json.load(file)
            return f"has ended with exit code {report['exit_code']} in phase {report['phase']}"
        except (OSError, ValueError, KeyError, TypeError):
            return ""
