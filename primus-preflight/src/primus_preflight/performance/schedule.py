"""Which nodes are tested together, and in which order: rounds that use each node at most once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations, zip_longest

Group = tuple[int, ...]
"""Nodes that a test runs on together; of a transfer the sender first."""
Round = tuple[Group, ...]
"""Groups that are tested at the same time; none shares a node with another."""

ALL_PAIRS_NODES = 32
"""Up to so many nodes every pair is tested: one round less than there are nodes."""
SAMPLED_ROUNDS = 8
"""Above that each node meets so many others."""


def pair_rounds(nodes: Sequence[int]) -> tuple[Round, ...]:
    """All pairs, each once, in as few rounds as there can be (the circle method of round-robin tournaments)."""
    rounds = len(nodes) - 1 + len(nodes) % 2
    return tuple(_circle(nodes, number) for number in range(max(0, rounds)))


def sampled_rounds(nodes: Sequence[int], count: int = SAMPLED_ROUNDS) -> tuple[Round, ...]:
    """So many rounds of all pairs, spread evenly over them: each node meets as many others, near ones and far ones."""
    rounds = len(nodes) - 1 + len(nodes) % 2
    chosen = sorted({number * rounds // count for number in range(count)} if rounds > count else range(rounds))
    return tuple(_circle(nodes, number) for number in chosen)


def transfer_rounds(nodes: Sequence[int]) -> tuple[Round, ...]:
    """Both directions of every pair, or of the sampled pairs where there are too many."""
    pairs = pair_rounds(nodes) if len(nodes) <= ALL_PAIRS_NODES else sampled_rounds(nodes)
    return tuple(one for forth in pairs for one in (forth, tuple((second, first) for first, second in forth)))


def turns(nodes: Sequence[int], machines: Mapping[int, str]) -> tuple[Round, ...]:
    """Each node alone. Nodes on the same machine, whose cores they share, take turns; all others go at once."""
    by_machine: dict[str, list[Group]] = {}
    for node in nodes:
        by_machine.setdefault(machines.get(node) or f"of node {node}", []).append((node,))
    columns = zip_longest(*by_machine.values())
    return tuple(tuple(group for group in column if group is not None) for column in columns)


def group_rounds(nodes: Sequence[int], sizes: Iterable[int]) -> tuple[Round, ...]:
    """The full group, then for each other size as many groups of neighbours as there are, all at once."""
    smaller = sorted({size for size in sizes if 1 < size < len(nodes)}, reverse=True)
    return ((tuple(nodes),), *(_neighbours(nodes, size) for size in smaller))


def parts(group: Group) -> tuple[Group, ...]:
    """Both halves of a group of more than two nodes; of three nodes all pairs, which are not for the same round."""
    if len(group) == 3:
        return tuple(combinations(group, 2))
    middle = len(group) // 2
    return group[:middle], group[middle:]


def apart(groups: Iterable[Group]) -> tuple[Round, ...]:
    """Distribute groups over rounds so that no two groups of a round share a node."""
    rounds: list[list[Group]] = []
    for group in groups:
        free = (members for members in rounds if all(set(group).isdisjoint(other) for other in members))
        if (members := next(free, None)) is None:
            rounds.append(members := [])
        members.append(group)
    return tuple(tuple(members) for members in rounds)


def with_partners(suspects: Sequence[int], good: Collection[int]) -> tuple[Round, ...]:
    """Each suspect in a pair with a node that is known to work; in as few rounds as there are partners for."""
    partners = sorted(set(good) - set(suspects))
    if not partners:
        return ()
    step = len(partners)
    batches = [suspects[start : start + step] for start in range(0, len(suspects), step)]
    return tuple(tuple(zip(batch, partners, strict=False)) for batch in batches)


def _circle(nodes: Sequence[int], number: int) -> Round:
    """One round: the last seat stays, the others move on by ``number`` seats; opposite seats meet."""
    seats: list[int | None] = [*nodes, *[None] * (len(nodes) % 2)]
    around = len(seats) - 1
    opposite = [((number + step) % around, (number - step) % around) for step in range(1, len(seats) // 2)]
    pairs = [(seats[number], seats[-1]), *((seats[first], seats[second]) for first, second in opposite)]
    return tuple(sorted((min(a, b), max(a, b)) for a, b in pairs if a is not None and b is not None))


def _neighbours(nodes: Sequence[int], size: int) -> Round:
    """Neighbours in groups; what is left over at the end is a smaller group of at least two."""
    starts = range(0, len(nodes), size)
    return tuple(group for group in (tuple(nodes[start : start + size]) for start in starts) if len(group) > 1)
