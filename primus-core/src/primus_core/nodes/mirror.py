"""What the ranks of one run leave for each other, on nodes that share no folder: small files, kept alike by node 0."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from primus_core.failuremark import NAME as FAILED
from primus_core.files import write_atomic

_PATTERNS = ("*.json", "ranks/*.json", "ranks/*.stacks", "ranks/stall-*/*.json")
_OF_THE_RUN = r"(?:report|requeue)\.json"
_OF_ALL_RANKS = rf"ranks/(?:{re.escape(FAILED)}|stall-\d+/(?:rank-\d+|verdict)\.json)"
_OF_ONE_RANK = r"ranks/rank-\d+\.(?:json|stacks)"
_KNOWN = re.compile(f"{_OF_THE_RUN}|{_OF_ALL_RANKS}|{_OF_ONE_RANK}")
_FOR_GUESTS = re.compile(f"{_OF_THE_RUN}|{_OF_ALL_RANKS}")
_FIRST_COUNTS = re.compile(rf"ranks/(?:{re.escape(FAILED)}|stall-\d+/verdict\.json)")


def is_for_guests(name: str) -> bool:
    """Whether ranks of other nodes, or their users, look for it; the reports of single ranks are for node 0."""
    return _FOR_GUESTS.fullmatch(name) is not None


class Mirror:
    """The run directory of one node.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, tuple[int, int]] = {}

    def changed(self) -> Iterator[tuple[str, str]]:
        """Name and text of each file that was made or changed here since the last look."""
        for path in sorted(path for pattern in _PATTERNS for path in self._folder.glob(pattern)):
            name = str(path.relative_to(self._folder))
            if _KNOWN.fullmatch(name):
                with contextlib.suppress(OSError):  # it was taken away meanwhile
                    state = _state(path)
                    if self._seen.get(name) != state:
                        self._seen[name] = state
                        yield name, path.read_text(encoding="utf-8", errors="replace")

    def take(self, name: str, text: str) -> bool:
        """Keep a file of another node; False for one that is not taken.

        Raises:
            OSError: the run directory is not writable.
        """
        path = self._folder / name
        if not _KNOWN.fullmatch(name) or (_FIRST_COUNTS.fullmatch(name) and path.exists()):
            return False
        write_atomic(path, text)
        self._seen[name] = _state(path)
        return True

    def clear(self) -> None:
        """Take away what an earlier start of the run left, but for what it tells of a stall."""
        for pattern in _PATTERNS[:-1]:
            for path in self._folder.glob(pattern):
                if _KNOWN.fullmatch(str(path.relative_to(self._folder))):
                    path.unlink(missing_ok=True)


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns
