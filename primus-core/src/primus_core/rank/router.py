"""Where each line and event of a rank goes: log files, metrics, console, report."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from primus_core.log import console, wire
from primus_core.log.events import Event, decode, encode, to_json
from primus_core.log.levels import LEVELS, strength
from primus_core.log.pace import Pace
from primus_core.log.records import Origin, head, one_line, utf8
from primus_core.log.thinning import Thinning
from primus_core.rank.files import LogFiles
from primus_core.rank.planfile import Brief
from primus_core.rank.state import TAIL_LINES, State
from primus_core.rank.terminal import Terminal

_OWN = "primus"
_EVENT_CHARACTERS = 1500
_NONE: Mapping[str, object] = MappingProxyType({})


class Router:
    """Writes what the child says, without secrets."""

    def __init__(self, brief: Brief, host: str, files: LogFiles, terminal: Terminal, state: State) -> None:
        self._brief = brief
        self._origin = Origin(brief.run_id, host, brief.rank, brief.module)
        self._columns = utf8(self._origin.columns)
        self._files = files
        self._terminal = terminal
        self._state = state
        self._thinning = Thinning()
        self._pace = Pace()
        self._shown = frozenset(LEVELS[strength(brief.console_level) :])
        self._warned_of_disk = False
        self._said: list[str] = []

    def stream(self, source: str, lines: list[bytes]) -> None:
        """Output that was no event: it is in the log only, unless it is the output of a user's own program."""
        if not lines:
            return
        texts = [one_line(text) for text in self._text(lines).split("\n")]
        before = head(self._origin, time.time(), "info", source)
        self._files.append("info", utf8(f"{before}{f'{chr(10)}{before}'.join(texts)}\n"))
        self._said += texts[-TAIL_LINES:]
        for text in texts if self._brief.shows_output else ():
            self._show({"kind": "output", "text": text}, wanted=True)
        self._flush()

    def events(self, lines: list[bytes]) -> None:
        """Lines of the events pipe."""
        for run in wire.runs(lines):
            if run.level is not None:
                self._records(run.level, run)
            else:
                self._others(run.lines)
        self._flush()

    def record(self, level: str, text: str, **values: object) -> None:
        """A record of the parent itself."""
        self._own(level, text, time.time(), values)
        self._flush()

    def _others(self, lines: list[bytes]) -> None:
        for line in lines:
            event = decode(line)
            if event is None:  # two helper processes wrote at once
                self.stream("events", [line])
            else:
                self._event(event)

    def _event(self, event: Event) -> None:
        kind = event["kind"]
        if kind != "phase" or event["name"] != self._state.phase:
            self._state.follow(event)
            self._tell(kind, event)

    def _tell(self, kind: str, event: Event) -> None:
        if kind == "metrics":
            self._metrics(event)
        elif kind in ("notice", "progress", "phase"):
            if kind == "notice":
                self._own("info", f"{event['topic']}: {event['text']}", time.time(), shown=False)
            self._show(event, wanted=self._brief.rank == 0)

    def _metrics(self, event: Event) -> None:
        row = event["row"]
        self._files.append_metrics(self._brief.redact(to_json(row)) + "\n")
        self._own("info", console.metrics_line(row, self._pace.follow(row)), row["time"], shown=False)
        self._show(event, wanted=self._brief.reports_metrics and row.get("loss") is not None)

    def _own(
        self, level: str, text: str, seconds: float, values: Mapping[str, object] = _NONE, *, shown: bool = True
    ) -> None:
        line = wire.encode_record(level, text, _OWN, values, seconds)[:-1]
        self._records(level, wire.Run(level, [line]), shown=shown)

    def _records(self, level: str, run: wire.Run, *, shown: bool = True) -> None:
        """Records of one level, written at once."""
        data = wire.completed(run, self._columns)
        if self._brief.redact.finds(data):
            data = b"\n".join(map(self._redacted, run.lines))
        self._files.append(level, data + b"\n")
        if level != "debug":
            self._said += map(wire.event_of, run.lines[-TAIL_LINES:])
        if shown and level in self._shown:
            for line in run.lines:
                self._show_record(level, wire.parts(line, self._columns))

    def _redacted(self, line: bytes) -> bytes:
        """The line in the log of a record that may hold a secret; its columns stay."""
        record = wire.parts(line, self._columns)
        return utf8(record.head + self._brief.redact(record.body))

    def _show_record(self, level: str, record: wire.Parts) -> None:
        """Own records from the level that was asked for; of libraries errors alone.

        Warnings of libraries are noise to everybody but their authors; the log has them. A user's own program is read
        by its author: all that it logs counts.
        """
        if level == "error" or record.source.startswith(_OWN) or self._brief.shows_output:
            self._show(self._shortened(level, record), wanted=True)

    def _shortened(self, level: str, record: wire.Parts) -> dict[str, Any]:
        """Without what only the log has room for, so that a line of the console fits into one write.

        Secrets go first: half of one would not be known, nor one in JSON in JSON.
        """
        text, values = self._brief.redact(record.event), self._brief.redact(record.values)
        shown = {"event": text[:_EVENT_CHARACTERS], "values": values if len(values) <= _EVENT_CHARACTERS else ""}
        return {"kind": "record", "level": level, "source": record.source, **shown}

    def _show(self, event: Event, *, wanted: bool) -> None:
        if not wanted:
            return
        named = {**event, "rank": self._brief.rank, "host": self._origin.host}
        if self._brief.forwards_events:
            self._terminal.put(self._brief.redact(encode(named).decode("ascii")).encode("ascii"))
        elif self._thinning.shows(event):
            text = console.line(named, self._pace.step_seconds)
            if text is not None:
                self._terminal.put(utf8(self._brief.redact(text)) + b"\n")

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
            self._show(self._shortened("warning", wire.Parts("", _OWN, trouble, "", "")), wanted=True)
