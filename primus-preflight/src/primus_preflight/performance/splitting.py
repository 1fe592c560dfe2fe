"""Finding the nodes for which a group fails or is slow, by testing parts of it: about log2(nodes) rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attrs import field

from primus_core.records import frozen
from primus_preflight.performance.schedule import Group, Round, apart, parts, with_partners

SLOW = 0.75
"""A group below this share of the best group of the same round is split on."""

RunRound = Callable[[Round], Mapping[Group, float]]
"""Runs groups at the same time; returns the figure of each, more is better, 0 for one that failed. Groups with a node
that was lost meanwhile may be missing."""


@frozen(kw_only=True)
class Split:
    """What came of it."""

    bad: tuple[int, ...] = ()
    """Nodes with which also a pair with a node that works fails or is slow."""
    unresolved: tuple[Group, ...] = ()
    """Groups that fail or are slow though each member works with others: a link; or no node is known to work."""
    figures: Mapping[Group, float] = field(factory=dict)
    """Of all groups that were tested."""


def split(group: Group, run: RunRound) -> Split:
    """Split a group until single nodes are left.

    A group counts as bad where its figure is 0 or below `SLOW` of the best of its round.
    """
    figures: dict[Group, float] = {}
    good: set[int] = set()
    last: list[Group] = []
    bad = [group]
    while bad:
        last += [one for one in bad if len(one) <= 2]
        found = _tried([part for one in bad if len(one) > 2 for part in parts(one)], run)
        figures.update(found)
        bad = _bad(found)
        good |= {node for one in found if one not in bad for node in one}
    suspects = sorted({node for one in last for node in one} - good)
    pairs: dict[Group, float] = {}
    for pairing in with_partners(suspects, good):
        pairs.update(run(pairing))
    return _judged(last, suspects, pairs, figures)


def _judged(last: list[Group], suspects: list[int], pairs: dict[Group, float], figures: dict[Group, float]) -> Split:
    best = max([*pairs.values(), *(figure for one, figure in figures.items() if len(one) == 2)], default=0.0)
    named = {pair[0] for pair, figure in pairs.items() if figure <= best * SLOW}
    if not pairs:
        named = set()
    rest = tuple(one for one in last if named.isdisjoint(one))
    return Split(bad=tuple(sorted(named)), unresolved=rest, figures={**figures, **pairs})


def _tried(groups: Iterable[Group], run: RunRound) -> dict[Group, float]:
    found: dict[Group, float] = {}
    for one in apart(groups):
        found.update(run(one))
    return found


def _bad(figures: Mapping[Group, float]) -> list[Group]:
    best = max(figures.values(), default=0.0)
    return [group for group, figure in figures.items() if figure <= best * SLOW]
