"""Which checkpoints go when a new one is whole."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from primus_core.checkpoints.folders import Checkpoint, newest_first
from primus_core.checkpoints.words import KEEP


@frozen(kw_only=True)
class Retention:
    """What is kept; all of it where nothing is said."""

    last: int | None = None
    """So many that were written last, 1 or more; None with ``every``: 1."""
    every: int | None = None
    """Those whose iteration is a multiple of this, for ever."""

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Retention | None:
        """As core's parameters ask; None where they say nothing."""
        last, every = (settings.get(name) for name in KEEP)
        if last is None and every is None:
            return None
        return cls(last=last if isinstance(last, int) else None, every=every if isinstance(every, int) else None)

    @property
    def is_any(self) -> bool:
        """Something may go at all."""
        return self.last is not None or self.every is not None

    def superfluous(self, whole: Sequence[Checkpoint], protected: Collection[str | Path] = ()) -> list[Checkpoint]:
        """Which of the whole checkpoints of a folder may go, the oldest first; never the one written last.

        Args:
            protected: folders that stay whatever the rule, such as that of the one that the run started from.
        """
        if not self.is_any:
            return []
        stay = {os.path.realpath(path) for path in protected}
        return [item for item in reversed(newest_first(whole)[self.last or 1 :]) if not self._kept(item, stay)]

    def _kept(self, item: Checkpoint, stay: Collection[str]) -> bool:
        regular = self.every is not None and item.iteration % self.every == 0
        return regular or os.path.realpath(item.folder) in stay
