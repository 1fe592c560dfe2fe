"""Several consoles that show the same run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from primus_core.log.events import Event


class Shows(Protocol):
    """What a run tells its progress to; `Console` is one."""

    def event(self, event: Event) -> None:
        """Show an event, if it is of a kind that is shown."""

    def line(self, text: str) -> None:
        """Show a line that stays."""

    def tick(self) -> None:
        """Time has passed: show what has waited long enough."""

    def close(self) -> None:
        """Show what has been held back."""


class Consoles:
    """Tells each of them everything; none of them: shows nothing."""

    def __init__(self, consoles: Sequence[Shows]) -> None:
        self._consoles = tuple(consoles)

    def event(self, event: Event) -> None:
        for console in self._consoles:
            console.event(event)

    def line(self, text: str) -> None:
        for console in self._consoles:
            console.line(text)

    def tick(self) -> None:
        for console in self._consoles:
            console.tick()

    def close(self) -> None:
        for console in self._consoles:
            console.close()
