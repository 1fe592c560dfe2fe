"""Where each line and event of a rank goes: log files, metrics, console, report."""

from __future__ import annotations

import time
from typing import Any

from primus_core.log import console
from primus_core.log.events import Event, decode, encode, to_json
from primus_core.log.levels import LEVELS, strength
from primus_core.log.pace import Pace
from primus_core.log.records import Origin, body, head, one_line, record
from primus_core.log.thinning import Thinning
from primus_core.rank.files import LogFiles
from primus_core.rank.planfile import Brief
from primus_core.rank.state import TAIL_LINES, State
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
        self._shown = frozenset(LEVELS[strength(brief.console_level) :])
        self._warned_of_disk = False
        self._said: list[str] = []

    def stream(self, source: str, lines: list[bytes]) -> None:
        """Output that was no event: it is in the log only."""
        if not lines:
            return
        texts = [one_line(text) for text in self._text(lines).split("\n")]
        before = head(self._origin, time.time(), "info", source)
        self._files.append("info", f"{before}{f'{chr(10)}{before}'.join(texts)}\n")
        self._said += texts[-TAIL_LINES:]
        self._flush()

    def events(self, lines: list[bytes]) -> None:
        """Lines of the events pipe."""
        for line in lines:
            event = decode(line)
            if event is None:  # two helper processes wrote at once
                self.stream("events", [line])
            else:
                self._event(event)
        self._flush()

    def record(self, level: str, text: str, **values: object) -> None:
        """A record of the parent itself."""
        self._record(record(level, text, _OWN, values, time.time()))
        self._flush()

    def _event(self, event: Event) -> None:
        kind = event["kind"]
        if kind == "record":
            self._record(event)
        elif kind != "phase" or event["name"] != self._state.phase:
            self._state.follow(event)
            self._tell(kind, event)

    def _tell(self, kind: str, event: Event) -> None:
        if kind == "metrics":
            self._metrics(event)
        elif kind in ("notice", "progress", "phase"):
            if kind == "notice":
                self._write(record("info", f"{event['topic']}: {event['text']}", _OWN, {}, time.time()))
            self._show(event, wanted=self._brief.rank == 0)

    def _record(self, event: Event) -> None:
        self._write(event)
        if self._reaches_console(event):
            self._show(self._shortened(event), wanted=True)

    def _metrics(self, event: Event) -> None:
        row = event["row"]
        self._files.append_metrics(self._brief.redact(to_json(row)) + "\n")
        self._write(record("info", console.metrics_line(row, self._pace.follow(row)), _OWN, {}, row["time"]))
        self._show(event, wanted=self._brief.reports_metrics and row.get("loss") is not None)

    def _write(self, event: Event) -> None:
        level = event["level"]
        text = self._brief.redact(body(event["event"], event["values"], event.get("traceback")))
        self._files.append(level, f"{head(self._origin, event['t'], level, event['source'])}{text}\n")
        if level != "debug":
            self._said.append(event["event"])

    def _reaches_console(self, event: Event) -> bool:
        """Own records from the level that was asked for; of libraries errors alone.

        Warnings of libraries are noise to everybody but their authors; the log has them.
        """
        level: str = event["level"]
        return level in self._shown and (level == "error" or event["source"].startswith(_OWN))

    def _shortened(self, event: Event) -> dict[str, Any]:
        """Without what only the log has room for, so that a line of the console fits into one write.

        Secrets go first: half of one would not be known, nor one in JSON in JSON.
        """
        text, values = self._brief.redact(event["event"]), self._brief.redact(event["values"])
        kept = {name: event[name] for name in ("kind", "t", "level", "source")}
        return {**kept, "event": text[:_EVENT_CHARACTERS], "values": values if len(values) <= _EVENT_CHARACTERS else ""}

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

    def _flush(self) -> None:
        """Once for all that arrived together: write it, and keep its end for the report."""
        self._files.flush()
        if self._said:
            self._state.said([self._brief.redact(event) for event in self._said[-TAIL_LINES:]])
            self._said.clear()
        trouble = self._files.trouble
        if trouble is not None and not self._warned_of_disk:
            self._warned_of_disk = True
            self._show(record("warning", trouble, _OWN, {}, time.time()), wanted=True)
