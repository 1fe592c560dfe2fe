"""What the coordinator works with: nodes that can be asked, and a book of what they measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from primus_preflight.meeting.room import Answer
from primus_preflight.meeting.wire import Message
from primus_preflight.model import Measurement

_LEAST_SECONDS = 1.0
_SHARE = 20
"""Writing takes at most one part of so many of the time."""

Write = Callable[[Sequence[Measurement]], None]


class Nodes(Protocol):
    """Those that can be asked: `primus_preflight.meeting.room.Room`."""

    @property
    def hellos(self) -> Mapping[int, Message]: ...

    @property
    def lost(self) -> Mapping[int, str]: ...

    @property
    def present(self) -> tuple[int, ...]: ...

    def ask(self, questions: Mapping[int, Message], seconds: float) -> Mapping[int, Answer]: ...


class Book:
    """All measurements so far, kept as often as that costs little: those of a second may be lost with this process.

    Args:
        write: is given all of them.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._measurements: list[Measurement] = []
        self._next = 0.0

    def add(self, *measurements: Measurement) -> None:
        self._measurements += measurements
        if measurements and time.monotonic() >= self._next:
            self.keep()

    @property
    def measurements(self) -> Sequence[Measurement]:
        return tuple(self._measurements)

    def keep(self) -> None:
        """Write now."""
        began = time.monotonic()
        self._write(self.measurements)
        ended = time.monotonic()
        self._next = ended + max(_LEAST_SECONDS, _SHARE * (ended - began))
