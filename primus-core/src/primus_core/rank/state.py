"""What a rank's parent knows of its child; it outlives a child that is killed."""

from __future__ import annotations

import platform
from collections import deque
from collections.abc import Mapping
from typing import Any

from primus_core.log.events import Event
from primus_core.rank.memory import MemoryLimit
from primus_core.rank.progress import Progress

TAIL_LINES = 20
_TAIL_CHARACTERS = 2000
_FAILURE = ("type", "text", "traceback", "problems", "at", "chain")
"""The fields of `primus_core.outcome.Failure`."""


class State:
    """Follows the events of one child."""

    def __init__(self) -> None:
        self.phase = "start"
        self.iteration: int | None = None
        self.failure: Mapping[str, Any] | None = None
        self.stopped: str | None = None
        """The signal for which the training ends before its last iteration."""
        self.patches: list[Mapping[str, Any]] = []
        self.result: Mapping[str, Any] = {}
        self.versions: Mapping[str, str] = {"python": platform.python_version()}
        self.device_memory: int | None = None
        """Largest allocation on an accelerator that was reported, in bytes."""
        self.memory = MemoryLimit.of_this_process()
        self.progress = Progress()
        self.stall: Mapping[str, Any] | None = None
        """What was found about the last hang of the run."""
        self.stragglers: list[Mapping[str, Any]] = []
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def follow(self, event: Event) -> None:
        self.progress.follow(event)
        kind = event["kind"]
        if kind == "phase":
            self.phase = event["name"]
        elif kind == "metrics":
            self._follow_row(event["row"])
        elif kind == "failure":
            self.failure = {name: event[name] for name in _FAILURE}
        elif kind == "stopped":
            self.stopped = event["signal"]
        elif kind == "patches":
            self.patches = event["results"]
        elif kind == "result":
            self.result = event["value"]
        elif kind == "versions":
            self.versions = event["value"]

    def _follow_row(self, row: Mapping[str, Any]) -> None:
        self.iteration = row["iteration"]
        if row.get("memory_bytes") is not None:
            self.device_memory = max(self.device_memory or 0, int(row["memory_bytes"]))

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
