"""What the coordinator works with: nodes that can be asked, and a book of what they measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from primus_preflight.meeting.room import Answer
from primus_preflight.meeting.wire import Message
from primus_preflight.model import Measurement

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
    """All measurements so far. What is written is never less than what is known.

    Args:
        write: is given all of them, each time that there are more.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._measurements: list[Measurement] = []

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return tuple(self._measurements)

    def add(self, *measurements: Measurement) -> None:
        self._measurements += measurements
        if measurements:
            self._write(self.measurements)
