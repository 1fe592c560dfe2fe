"""The files of one rank: level files and metrics."""

from __future__ import annotations

import json
import os
from typing import Any

from primus_core.log.levels import LEVELS, strength


class AppendFile:
    """A file that lines are added to, over restarts. A full disk loses lines and does not stop training."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.error: OSError | None = None
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def append(self, text: str) -> None:
        data = memoryview(text.encode("utf-8", "backslashreplace"))
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self.error = error


class LogFiles:
    """``{debug,info,warning,error}.log``, each with its level and above, and ``metrics.jsonl``."""

    def __init__(self, folder: str, lowest: str) -> None:
        os.makedirs(folder, exist_ok=True)
        self._lowest = strength(lowest)
        self._levels = [AppendFile(os.path.join(folder, f"{level}.log")) for level in LEVELS]
        self._metrics = AppendFile(os.path.join(folder, "metrics.jsonl"))

    def append(self, level: str, text: str) -> None:
        """Write whole lines of one level to each file that holds it."""
        number = strength(level)
        if number >= self._lowest:
            for file in self._levels[: number + 1]:
                file.append(text)

    def append_metrics(self, line: str) -> None:
        self._metrics.append(line)

    @property
    def error(self) -> OSError | None:
        """Why the latest line that was lost was lost."""
        return next((file.error for file in (*self._levels, self._metrics) if file.error), None)


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"
