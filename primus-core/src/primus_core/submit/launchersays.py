"""What a launcher's own program says: why it could not start, or what it lost on the way."""

from __future__ import annotations

from collections.abc import Callable

from primus_core.errors import ExitCode
from primus_core.log.events import Event
from primus_core.outcome import Problem

KIND = "launcher"
"""An event with ``problems`` (``what``, ``where``, ``why``, ``remedy``) and ``exit_code``."""


class LauncherSays:
    """Takes the launcher's events out of a stream of events."""

    def __init__(self, show: Callable[[Event], None]) -> None:
        self._show = show
        self.problems: tuple[Problem, ...] = ()
        self.exit_code = ExitCode.RUNTIME

    def event(self, event: Event) -> None:
        if event.get("kind") != KIND:
            self._show(event)
            return
        self.problems = tuple(Problem(**problem) for problem in event["problems"])
        self.exit_code = ExitCode(event["exit_code"])
