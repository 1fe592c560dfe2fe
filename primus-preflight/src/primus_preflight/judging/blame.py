"""Nodes and links told apart: a bad node makes most of what it takes part in bad, a bad link one pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from primus_core.records import frozen

Pair = tuple[int, int]
"""Sender and receiver."""
Group = tuple[int, ...]

_MOST = 0.5
"""A node is bad when more than this part of its pairs is, as sender or as receiver."""
_LEAST = 2
"""It takes so many bad pairs: of one, nothing tells the node from the link."""


@frozen(kw_only=True)
class Blame:
    """Who makes bad what is bad."""

    nodes: tuple[int, ...] = ()
    links: tuple[Pair, ...] = ()
    """Both directions of a pair are two links."""
    unclear: tuple[Group, ...] = ()
    """Groups that are bad by at least one of these nodes; nothing tells by which."""


def blame_pairs(bad: Collection[Pair], all_pairs: Collection[Pair]) -> Blame:
    """The worst node first: what it explains accuses nobody else."""
    counts = _Counts(bad, all_pairs)
    found: list[int] = []
    while (node := counts.worst()) is not None:
        found.append(node)
        counts.remove(node)
    return Blame(nodes=tuple(sorted(found)), links=tuple(sorted(counts.bad)))


class _Counts:
    """How many pairs each node has, and how many bad ones, by direction."""

    def __init__(self, bad: Iterable[Pair], all_pairs: Iterable[Pair]) -> None:
        self.bad = set(bad)
        self._pairs = set(all_pairs) | self.bad
        self._of: dict[int, set[Pair]] = {}
        for pair in self._pairs:
            for node in pair:
                self._of.setdefault(node, set()).add(pair)
        ends = [(node, way) for pair in self._pairs for way, node in enumerate(pair)]
        self._all = Counter(ends)
        self._bad = Counter((node, way) for pair in self.bad for way, node in enumerate(pair))

    def worst(self) -> int | None:
        """The node with the largest part of bad pairs; None where no node has enough."""
        guilty = (
            (count / self._all[end], count, -end[0])
            for end, count in self._bad.items()
            if count >= _LEAST and count > _MOST * self._all[end]
        )
        worst = max(guilty, default=None)
        return None if worst is None else -worst[2]

    def remove(self, node: int) -> None:
        """Leave out a node and its pairs."""
        for pair in self._of.pop(node) & self._pairs:
            self._pairs.discard(pair)
            for way, end in enumerate(pair):
                self._all[end, way] -= 1
                self._bad[end, way] -= pair in self.bad
            self.bad.discard(pair)


def blame_groups(bad: Sequence[Group], good: Sequence[Group]) -> Blame:
    """Who is in a good group is innocent; a bad group with one other member is bad by that one.

    A group that holds a bad one is not good: where each of its peers holds one too, no figure of theirs tells.
    """
    innocent = {node for group in good if not _holds(group, bad) for node in group}
    suspects = {group: tuple(node for node in group if node not in innocent) for group in bad}
    guilty = {nodes[0] for nodes in suspects.values() if len(nodes) == 1}
    rest = {group: nodes for group, nodes in suspects.items() if guilty.isdisjoint(group)}
    links = [(group[0], group[1]) for group, nodes in rest.items() if not nodes and len(group) == 2]
    unclear = {nodes or group for group, nodes in rest.items() if nodes or len(group) > 2}
    least = {group for group in unclear if not any(set(other) < set(group) for other in unclear)}
    return Blame(nodes=tuple(sorted(guilty)), links=tuple(sorted(links)), unclear=tuple(sorted(least)))


def _holds(group: Group, others: Sequence[Group]) -> bool:
    """Whether one of the others is a part of the group."""
    members = set(group)
    return any(len(one) < len(group) and members.issuperset(one) for one in others)
