"""Performance tests among four hosts whose links are limited: what is bad is found, and the rest is judged."""

from __future__ import annotations

import time
from itertools import permutations
from pathlib import Path

import pytest

from primus_preflight import gathering
from primus_preflight.judging import Limits, Report, judge
from primus_preflight.meeting.wire import LOST_SECONDS
from tests.cluster.conftest import MakeHosts
from tests.cluster.meeting import Meeting, accused, figures
from tests.testbed import faulty_torch
from tests.testbed.hosts import Hosts

pytestmark = pytest.mark.cluster

RATE = "400mbit"
NETWORK = ("inter-allreduce", "inter-p2p")


@pytest.fixture
def hosts(make_hosts: MakeHosts) -> Hosts:
    """Four hosts, each with a link of 400 Mbit/s."""
    made = make_hosts(4)
    for name in made.names:
        made.limit(name, RATE)
    return made


def judged(folder: Path) -> Report:
    report = judge(gathering.read([folder]), Limits.of(None), None)
    print(*report.faults, sep="\n")
    return report


def test_a_host_with_a_slow_link_is_named(hosts: Hosts, tmp_path: Path) -> None:
    """One host at 100 Mbit/s among others at 400: all its pairs are slow, sums are split until it is alone, the verdict
    names it, and the others pass."""
    hosts.limit("node3", "100mbit")
    meeting = Meeting(hosts, tmp_path / "run", NETWORK)
    meeting.nodes()
    pairs = figures(meeting.measurements(), "inter-p2p")
    assert set(pairs) == set(permutations(range(4), 2))
    assert max(value for pair, value in pairs.items() if 2 in pair) < 0.014
    assert min(value for pair, value in pairs.items() if 2 not in pair) > 0.025
    verdicts = {node.node: node.verdict for node in judged(tmp_path / "run").nodes}
    assert verdicts == {0: "pass", 1: "pass", 2: "failure", 3: "pass"}


def test_one_slow_direction_is_a_link(hosts: Hosts, tmp_path: Path) -> None:
    """What one host sends to one other is limited: that transfer alone is slow, and the verdict names the link."""
    hosts.limit_way("node2", "node4", "80mbit", others=RATE)
    meeting = Meeting(hosts, tmp_path / "run", ["inter-p2p"])
    meeting.nodes()
    pairs = figures(meeting.measurements(), "inter-p2p")
    assert pairs.pop((1, 3)) < 0.011
    assert min(pairs.values()) > 0.025
    report = judged(tmp_path / "run")
    assert [(fault.kind, fault.nodes) for fault in report.faults if fault.level == "failure"] == [("link", (1, 3))]
    assert "failure" not in {node.verdict for node in report.nodes}


def test_a_host_that_is_cut_off_is_named_and_the_rest_is_judged(hosts: Hosts, tmp_path: Path) -> None:
    """It is off the network in the middle of the tests: it is named, soon, and the others have all their figures."""
    seconds = 15
    meeting = Meeting(hosts, tmp_path / "run", NETWORK, iterations=10, seconds=seconds)
    meeting.wait_for(lambda one: one.test == "inter-allreduce")
    hosts.cut("node3")
    began = time.monotonic()
    meeting.wait_for(lambda one: one.nodes == (2,))
    assert time.monotonic() - began < LOST_SECONDS + 2 * seconds
    said = meeting.nodes()
    found = meeting.measurements()
    assert accused(found) == {("meeting", 2, "timeout")}
    assert {(0, 1), (1, 0), (0, 3), (3, 0), (1, 3), (3, 1)} <= set(figures(found, "inter-p2p"))
    assert [one.nodes for one in said[2].measurements] == [(2, 0), (2, 1)]  # it looked for another meeting in vain
    verdicts = {node.node: node.verdict for node in judged(tmp_path / "run").nodes}
    assert verdicts.pop(2) in ("failure", "missing")
    assert set(verdicts.values()) == {"pass"}


def test_a_host_whose_sums_are_wrong_is_named(hosts: Hosts, tmp_path: Path) -> None:
    """A plugin of torch on one host makes sums wrong: that host is named, the others are measured without it."""
    plugin = faulty_torch.install(tmp_path / "plugin", "sums")
    meeting = Meeting(hosts, tmp_path / "run", ["inter-allreduce"], env={1: {"PYTHONPATH": str(plugin)}})
    meeting.nodes()
    found = meeting.measurements()
    assert accused(found) == {("inter-allreduce", 1, "wrong")}
    assert (0, 2, 3) in figures(found, "inter-allreduce")
    verdicts = {node.node: node.verdict for node in judged(tmp_path / "run").nodes}
    assert verdicts == {0: "pass", 1: "failure", 2: "pass", 3: "pass"}


def test_the_next_node_stands_in_for_node_0(hosts: Hosts, tmp_path: Path) -> None:
    """Node 0 never comes: node 1 holds the meeting, all say that node 0 is not there, and the others see each other."""
    meeting = Meeting(hosts, tmp_path / "run", [], absent=0, join_seconds=6)
    said = meeting.nodes()
    found = meeting.measurements()
    assert {node.probes[-1].facts["coordinator"] for node in said.values()} == {1}
    assert {one.nodes for node in said.values() for one in node.measurements} == {(1, 0), (2, 0), (3, 0)}
    assert accused(found) == {("meeting", 0, "timeout")}
    assert set(figures(found, "reach")) == set(permutations((1, 2, 3), 2))
