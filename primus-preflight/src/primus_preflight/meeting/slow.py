"""What seems slow, and is tried again before it accuses anybody: something else may have run there for a moment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from attrs import evolve

from primus_core.records import frozen
from primus_preflight.meeting.grouprun import GroupRun
from primus_preflight.performance.schedule import Group, Round
from primus_preflight.performance.tokens import Trial

TRIES = 3
"""So often all that is slow is tried again, when the tests are done, unless it has become good."""
_BEST = 0.9
"""The best is what a tenth of the figures reaches: the very best may be luck."""
_GOOD = 0.95
"""What comes so near the best is not tried again."""


@frozen(kw_only=True)
class Slow:
    """Groups of one test of one size."""

    test: Trial
    size: int
    bar: float
    """A figure above it clears a group."""
    rounds: Sequence[Round]

    def only(self, groups: Collection[Group]) -> Slow:
        """Without all others."""
        rounds = (tuple(group for group in one if group in groups) for one in self.rounds)
        return evolve(self, rounds=[one for one in rounds if one])


def bar_of(runs: Iterable[GroupRun]) -> float:
    """What is not above it is slow, or failed."""
    figures = sorted(run.figure for run in runs if run.figure)
    return figures[int(_BEST * (len(figures) - 1))] * _GOOD if figures else 0.0


def slow_groups(runs: Iterable[GroupRun], bar: float) -> set[Group]:
    """Those that worked, and not well."""
    return {run.group for run in runs if 0 < run.figure <= bar}


def good_nodes(runs: Iterable[GroupRun], bar: float) -> set[int]:
    """Those that are in a group above the bar."""
    return {node for run in runs if run.figure > bar for node in run.group}
