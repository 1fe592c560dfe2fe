"""How the parents of a run's ranks find out together about a stall: files in the folder of their reports.

The first rank that suspects one makes ``stall-N``. Every rank's parent looks for that folder now and then, and puts
``rank-R.json`` there: where its rank stands. The one that made the folder waits for them, judges, and writes
``verdict.json``, by which all of them act. No rank's process takes part. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from typing import Any

from primus_core.files import write_atomic
from primus_core.rank.answers import Answer, from_map
from primus_core.rank.files import pretty

_ANSWER_SECONDS = 10.0
"""How long the judge waits for ranks that do not answer: more than the parents' longest pause."""
_VERDICT_SECONDS = 60.0
_VERDICT = "verdict.json"
_NAME = "stall-"


class Inquiry:
    """The stall that is looked into now, or the next one."""

    def __init__(self, folder: str, rank: int, world_size: int) -> None:
        self._folder = folder
        self._rank = rank
        self._world_size = world_size
        self._number = 1 + max(_numbers(folder), default=-1)  # there may be some of an earlier start of the same run
        self._since: float | None = None
        self._is_judge = False

    @property
    def is_open(self) -> bool:
        """Whether this rank has taken part and no verdict was taken note of."""
        return self._since is not None

    def open(self) -> None:
        """Ask all ranks; the one that is first is the judge. A folder that cannot be made asks nobody."""
        with contextlib.suppress(OSError):
            os.mkdir(self._path)
            self._is_judge = True

    def is_asked(self) -> bool:
        """Whether somebody asks and this rank has not answered."""
        return self._since is None and os.path.isdir(self._path)

    def answer(self, answer: Answer) -> None:
        if self._since is None:
            self._since = time.monotonic()
        with contextlib.suppress(OSError):
            write_atomic(self._file(f"rank-{self._rank}.json"), pretty(answer._asdict()))

    def moved(self) -> None:
        """The rank goes on after all: what it answered does not hold any more."""
        found = self._read(self._rank)
        if found is not None:
            self.answer(found._replace(idle=0.0))

    def answers(self) -> Mapping[int, Answer] | None:
        """For the judge: what all ranks say, or those that do within a time; None as long as that has not passed."""
        if not self._is_judge or self._since is None or os.path.exists(self._file(_VERDICT)):
            return None
        found = {rank: answer for rank in range(self._world_size) if (answer := self._read(rank)) is not None}
        waited = time.monotonic() - self._since
        return found if len(found) == self._world_size or waited > _ANSWER_SECONDS else None

    def decide(self, verdict: Mapping[str, Any]) -> None:
        """Tell all ranks; of inquiries that found nothing only the latest is kept."""
        with contextlib.suppress(OSError):
            write_atomic(self._file(_VERDICT), pretty(verdict))
        before = os.path.join(self._folder, f"{_NAME}{self._number - 1}")
        if (_load(os.path.join(before, _VERDICT)) or {}).get("kind") == "none":
            shutil.rmtree(before, ignore_errors=True)

    def verdict(self) -> Mapping[str, Any] | None:
        """What the judge found, once; then the next stall is looked for. Empty if the judge is gone."""
        if self._since is None:
            return None
        found = _load(self._file(_VERDICT))
        if found is None and time.monotonic() - self._since < _VERDICT_SECONDS:
            return None
        self._number, self._since, self._is_judge = self._number + 1, None, False
        return found or {}

    @property
    def _path(self) -> str:
        return os.path.join(self._folder, f"{_NAME}{self._number}")

    def _file(self, name: str) -> str:
        return os.path.join(self._path, name)

    def _read(self, rank: int) -> Answer | None:
        found = _load(self._file(f"rank-{rank}.json"))
        with contextlib.suppress(KeyError, TypeError):
            return from_map(found) if found is not None else None
        return None


def _numbers(folder: str) -> Iterable[int]:
    names = (name.removeprefix(_NAME) for name in os.listdir(folder) if name.startswith(_NAME))
    return (int(name) for name in names if name.isdecimal())


def _load(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
