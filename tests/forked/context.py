"""The context of a rank without Primus' own processes around it."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from primus_core.contract import Store
from primus_core.rank.stopping import Stopping


class Rank:
    """A rank's context that writes everything it is told to a file of JSON lines.

    Args:
        folder: of the file ``rank-N.jsonl``; None writes nothing.
        prepared: results of preparations, by name.
        kill: the rank dies of SIGKILL when what it was told matches this pattern.
    """

    def __init__(
        self,
        rank: int,
        world: int,
        folder: Path | None,
        prepared: Mapping[str, Any] | None = None,
        kill: str | None = None,
    ) -> None:
        self.rank = self.local_rank = rank
        self.world_size = world
        self.env: Mapping[str, str] = dict(os.environ)
        self._file = (folder / f"rank-{rank}.jsonl").open("a") if folder else None
        self._prepared = prepared or {}
        self._kill = kill
        self._told = ""
        self._stopping = Stopping((signal.SIGTERM,))
        self.phases: list[str] = []

    def phase(self, name: str) -> None:
        if self.phases[-1:] != [name]:
            self.phases.append(name)
            self.write("phase", name=name)

    def metrics(self, row: Mapping[str, object]) -> None:
        self.write("metrics", **row)

    def progress(self, what: str, done: int, total: int | None, unit: str) -> None:
        self.write("progress", what=what, done=done, total=total, unit=unit)

    def log(self, level: str, event: str, **values: object) -> None:
        self.write("record", level=level, event=event, **values)

    def notice(self, topic: str, text: str) -> None:
        self.write("notice", topic=topic, text=text)

    def should_stop(self, iteration: int, store: Store) -> bool:
        return self._stopping.after(iteration, store)

    def prepared(self, name: str) -> dict[str, Any]:
        return dict(self._prepared[name])

    def write(self, kind: str, **values: object) -> None:
        """One line of the file."""
        if self._file:
            line = json.dumps({"kind": kind, **values}, default=str) + "\n"
            self._file.write(line)
            self._file.flush()
            self._told += line
            if self._kill and re.search(self._kill, self._told, re.DOTALL):
                os.kill(os.getpid(), signal.SIGKILL)
