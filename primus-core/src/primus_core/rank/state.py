"""What a rank's parent knows of its child; it outlives a child that is killed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from primus_core.log.events import Event

TAIL_LINES = 20
_TAIL_CHARACTERS = 2000


class State:
    """Follows the events of one child."""

    def __init__(self) -> None:
        self.phase = "start"
        self.iteration: int | None = None
        self.failure: Mapping[str, Any] | None = None
        self.patches: list[Mapping[str, Any]] = []
        self.result: Mapping[str, Any] = {}
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def follow(self, event: Event) -> None:
        kind = event["kind"]
        if kind == "phase":
            self.phase = event["name"]
        elif kind == "metrics":
            self.iteration = event["row"]["iteration"]
        elif kind == "failure":
            self.failure = {name: event[name] for name in ("type", "text", "traceback", "problems")}
        elif kind == "patches":
            self.patches = event["results"]
        elif kind == "result":
            self.result = event["value"]

    def said(self, lines: list[str]) -> None:
        """Remember the latest lines of the child's log and output."""
        self._tail.extend(line[:_TAIL_CHARACTERS] for line in lines[-TAIL_LINES:])

    @property
    def done(self) -> bool:
        """The rank did its work; only the end of its process is missing."""
        return self.phase == "done"

    @property
    def last_lines(self) -> list[str]:
        return list(self._tail)

    @property
    def where(self) -> str:
        """``phase train, iteration 12``."""
        return f"phase {self.phase}" + ("" if self.iteration is None else f", iteration {self.iteration}")
