"""What the user sees of a run: one live line on a terminal, plain lines otherwise."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TextIO

from primus_core.log import console as looks
from primus_core.log.events import Event
from primus_core.log.pace import Pace
from primus_core.log.thinning import Thinning
from primus_core.submit.folding import Folding

_ERASE = "\r\x1b[K"
_WIDTH = 80


class Console:
    """Renders events on a stream.

    Records are held for a moment: what many ranks say at once is one line. Metrics and progress replace each other in
    the live line of a terminal; elsewhere they are thinned to lines.
    A stream that nobody reads any more is left alone: the run goes on, and its log files have everything.
    """

    def __init__(self, stream: TextIO, *, live: bool) -> None:
        self._stream: TextIO | None = stream
        self._live = live
        self._shown: tuple[str, ...] = ()
        """The live line, the longest text first."""
        self._thinning = Thinning()
        self._folding = Folding()
        self._pace = Pace()

    @classmethod
    def on(cls, stream: TextIO, env: Mapping[str, str]) -> Console:
        """A console on a stream; it has a live line if the stream is a terminal that can erase one."""
        return cls(stream, live=stream.isatty() and env.get("TERM", "dumb") != "dumb")

    def event(self, event: Event) -> None:
        """Show an event, if it is of a kind that the console shows."""
        if event.get("kind") == "metrics":
            self._pace.follow(event["row"])
        if self._live and event.get("kind") == "phase":
            self._phase(event["name"])
            return
        if event.get("kind") == "record":
            self._folding.take(event)
            self.tick()
            return
        text = looks.line(event, self._pace.step_seconds)
        if text is None:
            return
        if self._live and event["kind"] in ("metrics", "progress"):
            finished = event["kind"] == "progress" and event["done"] == event.get("total")
            self._shown = () if finished else (text, self._shorter(event, text))
            self._write(_ERASE + self._row())
        elif event["kind"] == "notice":
            self.line(text)
        elif self._live or self._thinning.shows(event):
            self._add(text)

    def tick(self) -> None:
        """Show what has been held long enough; to be called a few times a second."""
        self._unfold(everything=False)

    def _phase(self, name: str) -> None:
        """What goes on while there are no figures yet, or none for a while."""
        if name not in ("train", "done"):
            self._shown = (looks.topic_line("now", name),)
            self._write(_ERASE + self._row())

    def line(self, text: str) -> None:
        """Show a line that stays, above the live line, and before it what was held."""
        self._unfold()
        self._add(text)

    def _unfold(self, *, everything: bool = True) -> None:
        for record in self._folding.due(everything=everything):
            self._add(looks.record_line(record))

    def _add(self, text: str) -> None:
        self._write(f"{_ERASE}{text}\n{self._row()}" if self._shown else f"{text}\n")

    def close(self) -> None:
        """Show what was held, and leave the last state of the live line as an ordinary line."""
        self._unfold()
        if self._shown:
            self._write(f"{_ERASE}{self._shown[0]}\n")
        self._shown = ()

    def _row(self) -> str:
        """The live line in one row of the terminal as it is now: a row that wraps cannot be erased."""
        if not self._shown:
            return ""
        room = self._width() - 1
        fitting = (text for text in self._shown if len(text) <= room)
        return next(fitting, self._shown[-1][: max(0, room - 1)] + "…")

    def _shorter(self, event: Event, text: str) -> str:
        """Metrics for a narrow terminal: what tells how far the run is, and how it goes."""
        if event["kind"] != "metrics":
            return text
        return looks.metrics_line({**event["row"], "lr": None, "grad_norm": None}, self._pace.step_seconds)

    def _width(self) -> int:
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):  # a stream without a terminal behind it
                return os.get_terminal_size(self._stream.fileno()).columns or _WIDTH
        return _WIDTH

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the reader has gone
            self._stream = None
