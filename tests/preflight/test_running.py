"""Whose fault it is that a group fails or is slow, in clusters of up to thousands of computed nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import pytest

from primus_preflight.meeting.book import Book
from primus_preflight.meeting.coordinator import coordinate
from primus_preflight.model import Measurement
from primus_preflight.performance import tokens
from primus_preflight.performance.options import Options
from tests.preflight.fabric import SPEED, Fabric

OPTIONS = Options(sizes=(1 << 28,), iterations=3)


def measured(fabric: Fabric, *tests: str, options: Options = OPTIONS) -> tuple[Measurement, ...]:
    """All measurements of a meeting."""
    written: list[Sequence[Measurement]] = []
    coordinate(fabric, 0, len(fabric.hellos), tokens.tests_named(tests), options, Book(written.append))
    return tuple(written[-1])


def named(measurements: Sequence[Measurement]) -> set[tuple[str, int, str]]:
    """Test, node and status of whatever names a single node."""
    return {(one.test, one.nodes[0], one.status) for one in measurements if len(one.nodes) == 1 and one.status != "ok"}


def slow_of(measurements: Sequence[Measurement], test: str) -> tuple[set[int], set[tuple[int, ...]]]:
    """Nodes that are in no good group, and the slow pairs of others."""
    groups = {one.nodes: median(one.values) for one in measurements if one.test == test}
    bar = max(groups.values()) * 0.75
    good = {node for group, value in groups.items() if value > bar for node in group}
    nodes = {node for group in groups for node in group} - good
    slow = {group for group, value in groups.items() if value <= bar and nodes.isdisjoint(group) and len(group) == 2}
    return nodes, slow


def test_a_healthy_cluster_gives_every_figure_and_names_nobody() -> None:
    """Each test is measured in each group and repetition, at the speed that the links have."""
    found = measured(Fabric(4), *tokens.TOKENS)
    assert {one.status for one in found} == {"ok"}
    assert {one.test for one in found} == {*tokens.TOKENS, "clock", "reach"} - {"intra-allreduce", "intra-alltoall"}
    speeds = {value for one in found if one.unit == "GB/s" and len(one.nodes) > 1 for value in one.values}
    assert all(math.isclose(value, SPEED / 1e9, rel_tol=1e-4) for value in speeds)
    assert all(len(one.values) == 3 for one in found if one.unit != "s")
    assert {one.nodes for one in found if one.test == "inter-p2p"} == {
        (a, b) for a in range(4) for b in range(4) if a != b
    }


@pytest.mark.parametrize("count", [3, 4, 7, 32, 33, 300])
@pytest.mark.parametrize("test", ["inter-allreduce", "inter-p2p"])
def test_slow_nodes_are_told_from_their_partners(count: int, test: str) -> None:
    """A node whose links have a quarter of their speed has no good pair, and all others have one."""
    bad = count - 2
    fabric = Fabric(count, slow={bad: 0.25})
    nodes, links = slow_of(measured(fabric, test), test)
    assert (nodes, links) == ({bad}, set())
    assert fabric.rounds <= (2 * (count + 1) if count <= 32 and test == "inter-p2p" else 2 * 8 + 4 + math.log2(count))


def test_several_slow_nodes_of_thousands() -> None:
    """Three of 2,048 are found, in a few dozens of rounds."""
    bad = {17, 1024, 2000}
    fabric = Fabric(2048, slow=dict.fromkeys(bad, 0.5))
    found = measured(fabric, "inter-p2p", options=Options(sizes=(1 << 28,), iterations=1))
    assert slow_of(found, "inter-p2p") == (bad, set())
    assert fabric.rounds < 24


def test_one_slow_direction_is_a_link() -> None:
    """One direction of one pair at a tenth of its speed: that pair alone is slow, in that direction alone."""
    found = measured(Fabric(8, slow_links={(5, 2): 0.1}), "inter-p2p")
    assert slow_of(found, "inter-p2p") == (set(), {(5, 2)})


@pytest.mark.parametrize("test", ["inter-allreduce", "inter-alltoall", "allgather", "reducescatter", "inter-ring-p2p"])
@pytest.mark.parametrize("count", [3, 4, 9, 200])
def test_who_gets_wrong_values_is_named(test: str, count: int) -> None:
    """Where one node alone has wrong values it is that one's fault; the others are measured without it."""
    found = measured(Fabric(count, wrong={1}), test)
    assert named(found) == {(test, 1, "wrong")}
    others = tuple(node for node in range(count) if node != 1)
    assert [one.status for one in found if one.test == test and one.nodes == others] == ["ok"]


@pytest.mark.parametrize("count", [3, 4, 9, 200])
def test_who_gives_wrong_values_is_named(count: int) -> None:
    """Where all have wrong values the group is split until one node is left, and measured without it."""
    fabric = Fabric(count, poison={2})
    found = measured(fabric, "allgather")
    assert named(found) == {("allgather", 2, "wrong")}
    others = tuple(node for node in range(count) if node != 2)
    assert [one.status for one in found if one.test == "allgather" and one.nodes == others] == ["ok"]
    assert fabric.rounds <= 5 + math.log2(count)


@pytest.mark.parametrize("count", [4, 200])
def test_who_never_comes_to_a_group_is_named(count: int) -> None:
    """A worker that hangs while it joins makes all wait; splitting finds it, and the others are measured."""
    found = measured(Fabric(count, stuck={count - 1}), "reducescatter")
    assert named(found) == {("reducescatter", count - 1, "timeout")}
    assert found[-1].status == "ok"
    assert found[-1].nodes == tuple(range(count - 1))


def test_two_bad_nodes_are_both_named() -> None:
    """One gives wrong values, one never comes: both are found, and the rest has its figure."""
    found = measured(Fabric(8, poison={0}, stuck={5}), "inter-alltoall")
    assert named(found) == {("inter-alltoall", 0, "wrong"), ("inter-alltoall", 5, "timeout")}
    assert found[-1].nodes == (1, 2, 3, 4, 6, 7)


def test_two_nodes_alone_accuse_nobody() -> None:
    """Of two nodes whose sum is wrong neither is known to be the bad one."""
    found = measured(Fabric(2, poison={1}), "inter-allreduce")
    assert named(found) == set()
    assert [(one.nodes, one.status) for one in found if one.test == "inter-allreduce"] == [((0, 1), "wrong")]


@pytest.mark.parametrize("when", [1, 2, 3])
def test_a_node_that_is_lost_costs_itself_alone(when: int) -> None:
    """It is named once and at once; whatever failed for its loss is measured again without it, and accuses nobody."""
    found = measured(Fabric(4, dies={2: when}), "gemm", "inter-allreduce", "inter-p2p")
    assert named(found) == {("meeting", 2, "timeout")}
    order = [one.test for one in found]
    assert order.count("meeting") == 1
    assert order.index("meeting") < order.index("inter-p2p")
    assert {one.status for one in found if one.test != "meeting"} == {"ok"}
    assert any(2 not in one.nodes for one in found if one.test == "inter-allreduce")
    assert {(0, 1), (3, 0), (1, 3)} <= {one.nodes for one in found if one.test == "inter-p2p"}


def test_who_did_not_come_is_named() -> None:
    """Of five nodes that should come one is absent."""
    fabric = Fabric(4)
    written: list[Sequence[Measurement]] = []
    coordinate(fabric, 0, 5, (), OPTIONS, Book(written.append))
    assert named(written[-1]) == {("meeting", 4, "timeout")}
