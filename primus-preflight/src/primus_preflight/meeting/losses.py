"""Names nodes that are lost in the middle of a meeting, as soon as that is seen: the coordinator may be lost later."""

from __future__ import annotations

from primus_preflight.meeting.book import Book, Nodes
from primus_preflight.model import Measurement


class Losses:
    """Those of one meeting.

    Args:
        nodes: that can be asked.
        book: takes what became of those that are lost.
    """

    def __init__(self, nodes: Nodes, book: Book) -> None:
        self._nodes = nodes
        self._book = book
        self._told: set[int] = set()

    def tell(self) -> None:
        """Name those that were lost since the last time."""
        new = {node: how for node, how in sorted(self._nodes.lost.items()) if node not in self._told}
        self._told.update(new)
        self._book.add(
            *(
                Measurement(test="meeting", nodes=(node,), status="timeout", error=f"lost: {how}")
                for node, how in new.items()
            )
        )
