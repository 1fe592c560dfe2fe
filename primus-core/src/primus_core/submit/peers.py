"""The other nodes of a run, as far as starting processes has to do with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from primus_core.outcome import Problem

Outcome = TypeVar("Outcome")


class Peers(Protocol):
    """What the nodes of one run agree on."""

    @property
    def leads(self) -> bool:
        """This is the node that clears, merges and writes reports."""

    @property
    def number(self) -> int:
        """Of this node, from 0."""

    @property
    def lost(self) -> tuple[Problem, ...]:
        """Nodes that were lost, with how; known to the first one."""

    def begin(self) -> None:
        """Start the ranks together.

        Raises:
            RunError: a node failed or was lost.
        """

    def trouble(self) -> bool:
        """Whether a node was lost while the run goes on."""

    def conclude(self, judge: Callable[[], tuple[Outcome, int, bool]]) -> tuple[Outcome, bool]:
        """End together.

        Args:
            judge: gives the outcome, its exit code, and whether the run is started again.

        Returns:
            The outcome, and whether the run is started again.
        """


class _Alone:
    """A run of one node, or one whose launcher looks after all."""

    leads = True
    number = 0
    lost: tuple[Problem, ...] = ()

    def begin(self) -> None:
        """Nobody to wait for."""

    def trouble(self) -> bool:
        return False

    def conclude(self, judge: Callable[[], tuple[Outcome, int, bool]]) -> tuple[Outcome, bool]:
        outcome, _, again = judge()
        return outcome, again


ALONE: Peers = _Alone()
