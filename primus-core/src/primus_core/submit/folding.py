"""One line for what many ranks say at once: a message is held for a moment, and those that say the same are counted."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TypeAlias

from attrs import define, evolve, field

from primus_core.log.events import Event

SETTLE_SECONDS = 0.5
"""From the first who says something until it is shown: long enough for the ranks of a cluster that fail together."""
_REMEMBERED_SECONDS = 30.0
"""After that long the same message is a new one."""

_Said: TypeAlias = tuple[str, str, str]


@define
class _Group:
    """The same message of one or many ranks."""

    first: Event
    since: float
    times: int = 0
    ranks: set[int] = field(factory=set)


class Folding:
    """Takes records as they come and gives back those to show, each once.

    What is shown is what the first rank said, with ``ranks``, the number of ranks that said it, ``times``, how often
    they did together, and ``more`` where these ranks come to others that were shown before. Values do not tell messages
    apart.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held: dict[_Said, _Group] = {}
        self._shown: dict[_Said, _Group] = {}

    def take(self, record: Event) -> None:
        """Hold a record; it is shown `SETTLE_SECONDS` after the first that says the same."""
        group = self._held.setdefault(_said(record), _Group(first=record, since=self._clock()))
        group.times += 1
        group.ranks.add(int(record.get("rank", -1)))

    def due(self, *, everything: bool = False) -> list[Event]:
        """What is to be shown now, in the order in which it was first said.

        Args:
            everything: wait no longer.
        """
        if not self._held:
            return []
        now = self._clock()
        ready = [said for said, group in self._held.items() if everything or now - group.since >= SETTLE_SECONDS]
        return [self._show(said, now) for said in ready]

    def _show(self, said: _Said, now: float) -> Event:
        group = self._held.pop(said)
        recent = {one: past for one, past in self._shown.items() if now - past.since < _REMEMBERED_SECONDS}
        known = recent[said].ranks if said in recent else set()
        new = group.ranks - known
        self._shown = {**recent, said: evolve(group, ranks=group.ranks | known)}
        ranks = len(new) if known and new else len(group.ranks)
        return {**group.first, "ranks": ranks, "times": group.times, "more": bool(known and new)}


def _said(record: Event) -> _Said:
    """What makes two records the same: a rank that names itself or its host says what the others say."""
    text = re.sub(rf"\b([Rr]ank[ -]?){record.get('rank')}\b", r"\1#", record["event"])
    return record["level"], record.get("source", ""), text.replace(str(record.get("host") or "\0"), "HOST")
