"""Where each line and event of a rank goes: log files, metrics, console, report."""

from __future__ import annotations

import time
from typing import Any

from primus_core.log import console
from primus_core.log.events import Event, decode, encode, to_json
from primus_core.log.levels import strength
from primus_core.log.pace import Pace
from primus_core.log.records import Origin, body, head, one_line
from primus_core.log.thinning import Thinning
from primus_core.rank.files import LogFiles
from primus_core.rank.planfile import Brief
from primus_core.rank.state import State
from primus_core.rank.terminal import Terminal

_OWN = "primus"
_EVENT_CHARACTERS = 1500


class Router:
    """Writes what the child says, without secrets."""

    def __init__(self, brief: Brief, host: str, files: LogFiles, terminal: Terminal, state: State) -> None:
        self._brief = brief
        self._origin = Origin(brief.run_id, host, brief.rank, brief.module)
        self._files = files
        self._terminal = terminal
        self._state = state
        self._thinning = Thinning()
        self._pace = Pace()
        self._warned_of_disk = False

    def stream(self, source: str, lines: list[bytes]) -> None:
        """Output that was no event: it is in the log only."""
        if not lines:
            return
        texts = [one_line(text) for text in self._text(lines).split("\n")]
        before = head(self._origin, time.time(), "info", source)
        self._files.append("info", f"{before}{f'{chr(10)}{before}'.join(texts)}\n")
        self._state.said(texts)
        self._watch_disk()

    def events(self, lines: list[bytes]) -> None:
        """Lines of the events pipe."""
        for line in lines:
            event = decode(line)
            if event is None:  # two helper processes wrote at once
                self.stream("events", [line])
            else:
                self.event(event)

    def event(self, event: Event) -> None:
        kind = event["kind"]
        if kind == "phase" and event["name"] == self._state.phase:
            return
        self._state.follow(event)
        if kind == "record":
            self._record(event)
        elif kind == "metrics":
            self._metrics(event)
        elif kind in ("notice", "progress", "phase"):
            if kind == "notice":
                self._write("info", f"{event['topic']}: {event['text']}", _OWN, {}, time.time())
            self._show(event, wanted=self._brief.rank == 0)

    def record(self, level: str, text: str, **values: object) -> None:
        """A record of the parent itself."""
        self._record(
            {"kind": "record", "t": time.time(), "level": level, "event": text, "source": _OWN, "values": values}
        )

    def _record(self, event: Event) -> None:
        self._write(event["level"], event["event"], event["source"], event["values"], event["t"])
        self._show(_shortened(event), wanted=self._reaches_console(event))

    def _metrics(self, event: Event) -> None:
        row = event["row"]
        self._files.append_metrics(self._brief.redact(to_json(row)) + "\n")
        self._write("info", console.metrics_line(row, self._pace.follow(row)), _OWN, {}, row["time"])
        self._show(event, wanted=self._brief.reports_metrics and row.get("loss") is not None)

    def _write(self, level: str, event: str, source: str, values: Event, seconds: float) -> None:
        text = self._brief.redact(body(event, values))
        self._files.append(level, f"{head(self._origin, seconds, level, source)}{text}\n")
        if strength(level) > 0:
            self._state.said([self._brief.redact(one_line(event))])
        self._watch_disk()

    def _reaches_console(self, event: Event) -> bool:
        """Own records from the level that was asked for; of libraries errors alone.

        Warnings of libraries are noise to everybody but their authors; the log has them.
        """
        own = event["source"].startswith(_OWN)
        return strength(event["level"]) >= strength(self._brief.console_level if own else "error")

    def _show(self, event: Event, *, wanted: bool) -> None:
        if not wanted:
            return
        named = {**event, "rank": self._brief.rank, "host": self._origin.host}
        if self._brief.forwards_events:
            self._terminal.put(self._brief.redact(encode(named).decode("ascii")).encode("ascii"))
        elif self._thinning.shows(event):
            text = console.line(named, self._pace.step_seconds)
            if text is not None:
                self._terminal.put(self._brief.redact(text).encode("utf-8", "backslashreplace") + b"\n")

    def _text(self, lines: list[bytes]) -> str:
        return self._brief.redact(b"\n".join(lines).decode("utf-8", "backslashreplace"))

    def _watch_disk(self) -> None:
        error = self._files.error
        if error is not None and not self._warned_of_disk:
            self._warned_of_disk = True
            self._show(_own_warning(f"log lines are being lost: {error}"), wanted=True)


def _shortened(event: Event) -> dict[str, Any]:
    """Without what only the log has room for, so that a line of the console fits into one write."""
    values = {key: value for key, value in event["values"].items() if key != "traceback"}
    if len(to_json(values)) > _EVENT_CHARACTERS:
        values = {}
    return {**event, "event": event["event"][:_EVENT_CHARACTERS], "values": values}


def _own_warning(text: str) -> Event:
    return {"kind": "record", "t": time.time(), "level": "warning", "event": text, "source": _OWN, "values": {}}
