"""Which events a console without a live line shows: enough to follow a run, few enough to read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from primus_core.log.events import Event

LINES_PER_RUN = 20
_PROGRESS_SECONDS = 10.0


class Thinning:
    """Remembers what was shown.

    Of metrics: the first row, the last and about twenty between. Of a progress: the end, and a line every ten
    seconds, so that what takes less is one line. Everything else is shown.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first_row = True
        self._progress: dict[str, float] = {}

    def shows(self, event: Event) -> bool:
        if event["kind"] == "metrics":
            return self._shows_row(event["row"])
        return self._shows_progress(event) if event["kind"] == "progress" else True

    def _shows_row(self, row: dict[str, Any]) -> bool:
        first, self._first_row = self._first_row, False
        iteration, last = row["iteration"], row.get("train_iters") or 0
        return first or iteration == last or iteration % max(1, last // LINES_PER_RUN) == 0

    def _shows_progress(self, event: Event) -> bool:
        now = self._clock()
        shown = self._progress.setdefault(event["what"], now)
        if event["done"] != event.get("total") and now - shown < _PROGRESS_SECONDS:
            return False
        self._progress[event["what"]] = now
        return True
