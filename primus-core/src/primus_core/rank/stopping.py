"""Ending a training between two iterations: all ranks at the same one, with no collective for it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from types import FrameType

from primus_core.contract import Store

_KEY = "primus/stop"


class Stopping:
    """One rank's part in the agreement.

    The rank that has the signal when it has finished iteration N says in the store: stop after N + 1. No rank can
    finish N + 1 without this one, so each of them looks after that was said and before it would begin N + 2.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = numbers
        self._armed = False
        self._asked: int | None = None
        self.agreed: tuple[int, str] | None = None
        """After which iteration to end, and the signal that asked for it."""

    def after(self, iteration: int, store: Store) -> bool:
        """Whether to save and end now that an iteration is finished.

        From the first call on the signals are caught; until then they end the process, which has nothing to save.
        """
        if not self._armed:
            self._arm()
        if self.agreed is None:
            self.agreed = self._look(iteration, store)
        return self.agreed is not None and iteration >= self.agreed[0]

    def _arm(self) -> None:
        self._armed = True
        for number in self._numbers:
            signal.signal(number, self._signalled)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self._asked is None:
            self._asked = number

    def _look(self, iteration: int, store: Store) -> tuple[int, str] | None:
        if self._asked is not None:
            mine = f"{iteration + 1} {signal.Signals(self._asked).name}"
            told = store.compare_set(_KEY, "", mine)
        elif store.check([_KEY]):
            told = store.get(_KEY)
        else:
            return None
        last, _, name = told.decode().partition(" ")
        return int(last), name
