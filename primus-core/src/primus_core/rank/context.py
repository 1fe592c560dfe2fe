"""The `primus_core.contract.RankContext` that tasks, patches and checks are given."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from primus_core.contract import Store
from primus_core.errors import RunError
from primus_core.log.emitter import Emitter
from primus_core.log.levels import LEVELS, strength
from primus_core.log.metrics import complete_row
from primus_core.log.recording import core_logger
from primus_core.rank.collectives import Collectives
from primus_core.rank.stopping import Stopping
from primus_core.rundir import RunDir


class Context:
    """One rank's way to say what it does; everything goes through the parent."""

    def __init__(
        self,
        emitter: Emitter,
        run_id: str,
        run_dir: RunDir,
        env: Mapping[str, str],
        stop: Sequence[int] = (),
        collectives: Collectives | None = None,
    ) -> None:
        self.rank = int(env["RANK"])
        self.local_rank = int(env.get("LOCAL_RANK", 0))
        self.world_size = int(env["WORLD_SIZE"])
        self.env: Mapping[str, str] = MappingProxyType(dict(env))
        self._emitter = emitter
        self._run_id = run_id
        self._run_dir = run_dir
        self._logger = core_logger()
        self._stopping = Stopping(stop)
        self._collectives = collectives or Collectives()

    def phase(self, name: str) -> None:
        self._emitter.emit({"kind": "phase", "name": name})

    def metrics(self, row: Mapping[str, object]) -> None:
        complete = complete_row(row, time=time.time(), run_id=self._run_id, rank=self.rank)
        if groups := self._collectives.new_groups():
            self._emitter.emit({"kind": "groups", "groups": groups})
        self._emitter.emit({"kind": "metrics", "row": complete, "waited": self._collectives.waited()})

    def progress(self, what: str, done: int, total: int | None, unit: str) -> None:
        self._emitter.emit({"kind": "progress", "what": what, "done": done, "total": total, "unit": unit})

    def log(self, level: str, event: str, **values: object) -> None:
        getattr(self._logger, LEVELS[strength(level)])(event, **values)

    def notice(self, topic: str, text: str) -> None:
        self._emitter.emit({"kind": "notice", "topic": topic, "text": text})

    def should_stop(self, iteration: int, store: Store) -> bool:
        heard = self._stopping.agreed
        stops = self._stopping.after(iteration, store)
        agreed = self._stopping.agreed
        if agreed and agreed != heard:
            self.notice("stop", f"{agreed[1]}: the run ends after iteration {agreed[0]}")
        if agreed and stops:
            self._emitter.emit({"kind": "stopped", "signal": agreed[1]})
        return stops

    def prepared(self, name: str) -> Mapping[str, object]:
        """The result of a preparation.

        Raises:
            RunError: the plan has none of this kind, or it is not finished.
        """
        path = self._run_dir.prepare / f"{name}.json"
        try:
            result: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(f"nothing was prepared under the name {name!r}", where=str(path)) from None
        return result
