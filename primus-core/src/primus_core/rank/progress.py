"""What tells a rank that goes on from one that stands still. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from primus_core.log.events import Event


class Progress:
    """Counts what a child says that shows it goes on."""

    def __init__(self) -> None:
        self.phases = 0
        self.iterating = ""
        """The phase in which the last iteration ended."""
        self.rows = 0
        """Iterations that ended."""
        self.reports = 0
        """Of how far a long preparation has come."""
        self.moment = 0.0
        """When the last iteration ended, in seconds since the epoch."""
        self.waited: float | None = None
        """Seconds until then in which the rank's code waited in collectives; None where nobody measures that."""
        self.groups: Mapping[str, Sequence[int]] = {}
        """Global ranks of each process group that this rank is in."""
        self._phase = ""

    def follow(self, event: Event) -> None:
        kind = event["kind"]
        if kind == "metrics":
            self.rows += 1
            self.iterating = self._phase
            self.moment = float(event["row"]["time"])
            self.waited = event.get("waited")
        elif kind == "phase":
            self.phases += 1
            self._phase = event["name"]
        elif kind == "progress":
            self.reports += 1
        elif kind == "groups":
            self.groups = event["groups"]

    @property
    def mark(self) -> tuple[int, int, int]:
        """Differs as soon as there is progress."""
        return self.phases, self.rows, self.reports
