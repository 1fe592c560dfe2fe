"""The files of one rank: level files and metrics."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, NamedTuple

from primus_core.log.levels import LEVELS, strength
from primus_core.log.records import utf8


class Limits(NamedTuple):
    """How much room each level's files may take."""

    bytes: int
    """Of one file; 0: no limit."""
    backups: int
    """How many full files are kept beside the one that is written to: ``debug.log.1`` is the newest."""


UNLIMITED = Limits(bytes=0, backups=0)


class AppendFile:
    """A file that lines are added to, over restarts. A full disk loses lines and does not stop training.

    A file that would grow beyond its limit is renamed and a new one begun. Files end with a whole line, unless one
    line is longer than a whole file may be: then it goes on in the next.
    """

    def __init__(self, path: str, limits: Limits = UNLIMITED) -> None:
        self.path = path
        self.trouble: str | None = None
        """What went wrong last."""
        self._limits = limits
        self._open()

    def append(self, data: bytes) -> None:
        """Write whole lines."""
        start = 0
        while self._limits.bytes and self._size + len(data) - start > self._limits.bytes:
            end = self._end_of_file(data, start)
            self._write(data[start:end])
            self._begin_anew()
            start = end
        self._write(data[start:])

    def close(self) -> None:
        os.close(self._descriptor)

    def _open(self) -> None:
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    def _write(self, data: bytes) -> None:
        try:
            while data:
                written = os.write(self._descriptor, data)
                self._size += written
                data = data[written:]
        except OSError as error:
            self.trouble = f"log lines are being lost: {error}"

    def _end_of_file(self, data: bytes, start: int) -> int:
        """Up to where lines still fit into the file; into an empty one, a part of a line that fits nowhere."""
        limit = start + max(self._limits.bytes - self._size, 0)
        after_line = data.rfind(b"\n", start, limit) + 1
        if after_line or self._size:
            return after_line or start
        return _character_end(data, start, limit)

    def _begin_anew(self) -> None:
        """Where that fails, the old file goes on, and it is tried again when as much has been written once more."""
        full = self._descriptor
        try:
            _shift(self.path, self._limits.backups)
            self._open()
            os.close(full)
        except OSError as error:
            self.trouble = f"a full log file could not be put aside: {error}"
            self._size = 0


class LogFiles:
    """``{debug,info,warning,error}.log``, each with its level and above, and ``metrics.jsonl``.

    Lines of a level are kept until `flush`, so that those that arrive together are written at once. Metrics are
    written directly, and have no limit: plots and later runs read them whole.
    """

    def __init__(self, folder: str, lowest: str, limits: Limits = UNLIMITED) -> None:
        os.makedirs(folder, exist_ok=True)
        self._lowest = strength(lowest)
        self._levels = [AppendFile(os.path.join(folder, f"{level}.log"), limits) for level in LEVELS]
        self._waiting: list[list[bytes]] = [[] for _ in LEVELS]
        self._metrics = AppendFile(os.path.join(folder, "metrics.jsonl"))

    def append(self, level: str, lines: bytes) -> None:
        """Add whole lines of one level, in UTF-8, to each file that holds it."""
        number = strength(level)
        if number >= self._lowest:
            for waiting in self._waiting[: number + 1]:
                waiting.append(lines)

    def append_metrics(self, line: str) -> None:
        self._metrics.append(utf8(line))

    def flush(self) -> None:
        for file, waiting in zip(self._levels, self._waiting, strict=True):
            if waiting:
                file.append(b"".join(waiting))
                waiting.clear()

    def close(self) -> None:
        """In the child, which would otherwise hold files that the parent has deleted."""
        for file in (*self._levels, self._metrics):
            file.close()

    @property
    def trouble(self) -> str | None:
        """What is wrong with a file."""
        for file in (*self._levels, self._metrics):
            if file.trouble:
                return file.trouble
        return None


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _shift(path: str, backups: int) -> None:
    """Rename a file to ``path.1``, that one to ``path.2`` and so on; delete those beyond the number to keep."""
    names = [path]
    while os.path.exists(older := f"{path}.{len(names)}"):
        names.append(older)
    for number, name in reversed(list(enumerate(names))):
        with contextlib.suppress(FileNotFoundError):  # somebody tidied up
            if number < backups:
                os.replace(name, f"{path}.{number + 1}")
            else:
                os.unlink(name)


def _character_end(data: bytes, start: int, end: int) -> int:
    """The last end of a UTF-8 character up to ``end``; where not one fits, ``end``."""
    cut = end
    while cut > start and data[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut if cut > start else end
