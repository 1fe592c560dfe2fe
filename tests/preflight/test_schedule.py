"""Which nodes are tested together: every pair once, each node once a round, and few rounds."""

from __future__ import annotations

from itertools import combinations

import pytest

from primus_preflight.performance.schedule import (
    Round,
    apart,
    group_rounds,
    pair_rounds,
    sampled_rounds,
    transfer_rounds,
    turns,
)


def check_apart(rounds: tuple[Round, ...]) -> None:
    """No round uses a node twice."""
    for groups in rounds:
        nodes = [node for group in groups for node in group]
        assert len(nodes) == len(set(nodes))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 31, 32])
def test_all_pairs_meet_once_in_as_few_rounds_as_possible(count: int) -> None:
    """An even number of nodes needs one round less than there are nodes, an odd one as many."""
    nodes = list(range(100, 100 + count))
    rounds = pair_rounds(nodes)
    check_apart(rounds)
    assert sorted(pair for one in rounds for pair in one) == list(combinations(nodes, 2))
    assert len(rounds) == count - 1 + count % 2


def test_nobody_has_no_partner() -> None:
    """One node alone and no node have no rounds."""
    assert pair_rounds([7]) == ((),)
    assert pair_rounds([]) == ()


@pytest.mark.parametrize("count", [33, 64, 1001, 4096])
def test_samples_give_each_node_as_many_partners(count: int) -> None:
    """Above the number of nodes whose pairs are all tested, each node meets eight others, whatever their number."""
    rounds = sampled_rounds(range(count))
    check_apart(rounds)
    partners: dict[int, set[int]] = {node: set() for node in range(count)}
    for first, second in (pair for one in rounds for pair in one):
        partners[first].add(second)
        partners[second].add(first)
    assert {len(found) for found in partners.values()} <= ({8} if count % 2 == 0 else {7, 8})
    assert len(rounds) == 8


def test_transfers_go_both_ways() -> None:
    """Each pair is there in both directions, in rounds one after the other."""
    found = [pair for one in transfer_rounds(range(6)) for pair in one]
    assert sorted(found) == sorted((a, b) for a in range(6) for b in range(6) if a != b)
    check_apart(transfer_rounds(range(6)))


def test_nodes_of_one_machine_take_turns() -> None:
    """Nodes that share cores are in different rounds; the others do not wait for them."""
    rounds = turns([0, 1, 2, 3, 4], {0: "a", 1: "a", 2: "b", 3: "a"})
    assert rounds == (((0,), (2,), (4,)), ((1,),), ((3,),))


def test_groups_of_a_size_run_at_once() -> None:
    """The full group comes first, then each size in as many groups as there are; a node left over stays alone."""
    assert group_rounds(range(5), [2, 4, 5, 9]) == (((0, 1, 2, 3, 4),), ((0, 1, 2, 3),), ((0, 1), (2, 3)))


def test_groups_that_share_a_node_are_held_apart() -> None:
    """As few rounds as the order allows; no group is lost."""
    groups = ((0, 1), (1, 2), (3, 4), (2, 3))
    assert apart(groups) == (((0, 1), (3, 4)), ((1, 2),), ((2, 3),))
