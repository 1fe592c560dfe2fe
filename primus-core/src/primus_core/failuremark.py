"""The file by which all ranks of a run know that one of them has failed. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping

NAME = "failed.json"
"""In the folder of the ranks' reports."""


class FailureMark:
    """Made by the first rank that fails; torchrun and schedulers end the others by the signal that else means: stop.

    Args:
        folder: of the ranks' reports.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, NAME)
        self._before = _state(self._path)
        """Left by an earlier start of the same run."""

    def is_set(self) -> bool:
        """Whether a rank has failed since this object was made."""
        return _state(self._path) not in (None, self._before)

    def set(self, told: Mapping[str, object]) -> None:
        """Say that a rank failed; the first one that says so counts. A mark that cannot be written helps nobody."""
        if self.is_set():
            return
        temporary = f"{self._path}.{told.get('rank')}.{os.getpid()}"
        with contextlib.suppress(OSError):
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(told, file)
            os.replace(temporary, self._path)


def _state(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
