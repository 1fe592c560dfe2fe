"""Agents on several hosts that meet: whatever names and addresses hosts have, and whichever of them is lost."""

from __future__ import annotations

import os
import signal
import time
from itertools import permutations
from pathlib import Path

import pytest

from primus_core import linux
from primus_preflight import gathering
from primus_preflight.judging import Limits, Report, judge
from tests.cluster.conftest import MakeHosts
from tests.cluster.meeting import Meeting, accused, figures
from tests.cluster.several import Nodes
from tests.preflight.sick import install, node, run_folder

pytestmark = pytest.mark.cluster


def test_a_name_of_node_0_that_leads_to_itself(make_hosts: MakeHosts, tmp_path: Path) -> None:
    """As on Debian, node 0's own name is 127.0.1.1 there: the others are told an address that leads to it."""
    hosts = make_hosts(3)
    names = tmp_path / "names"
    names.write_text((tmp_path / "hosts").read_text().replace(hosts.address("node1"), "127.0.1.1"))
    hosts.show("node1", names, Path("/etc/hosts"))
    meeting = Meeting(hosts, tmp_path / "run", [])
    meeting.nodes()
    assert set(figures(meeting.measurements(), "reach")) == set(permutations(range(3), 2))


def test_a_network_of_ipv6_alone(make_hosts: MakeHosts, tmp_path: Path) -> None:
    """Nodes without an IPv4 address meet, and reach each other."""
    hosts = make_hosts(3)
    (tmp_path / "hosts").write_text("".join(f"fd00::{number} node{number}\n" for number in (1, 2, 3)))
    for number, name in enumerate(hosts.names, 1):
        hosts.check(name, ["ip", "-4", "address", "flush", "dev", "eth0"])
        hosts.check(name, ["ip", "address", "add", f"fd00::{number}/64", "dev", "eth0", "nodad"])
    meeting = Meeting(hosts, tmp_path / "run", [])
    meeting.nodes()
    assert set(figures(meeting.measurements(), "reach")) == set(permutations(range(3), 2))


def judged(folder: Path) -> Report:
    report = judge(gathering.read([folder]), Limits())
    print(*report.faults, sep="\n")
    return report


@pytest.mark.parametrize("loss", ["crash", "cut"])
def test_a_node_0_that_is_lost_is_named_and_the_rest_meets_again(
    make_hosts: MakeHosts, tmp_path: Path, loss: str
) -> None:
    """It held the meeting: node 1 holds the next one, in which all others are measured and pass."""
    hosts = make_hosts(3)
    meeting = Meeting(hosts, tmp_path / "run", ["gemm", "inter-allreduce"], iterations=20, seconds=15)
    meeting.wait_for(lambda one: one.test == "inter-allreduce")
    getattr(hosts, loss)("node1")
    began = time.monotonic()
    lost = meeting.agents.pop(0)
    said = meeting.nodes()
    assert time.monotonic() - began < 120
    assert {node.probes[-1].facts["coordinator"] for node in said.values()} == {1}
    lost.kill()
    lost.communicate()
    found = gathering.read([tmp_path / "run"]).measurements
    assert accused(found) == {("meeting", 0, "timeout")}
    assert (1, 2) in figures(found, "inter-allreduce")
    verdicts = {node.node: node.verdict for node in judged(tmp_path / "run").nodes}
    assert verdicts == {0: "failure", 1: "pass", 2: "pass"}


def test_a_coordinator_that_dies_costs_its_node_a_warning(make_hosts: MakeHosts, tmp_path: Path) -> None:
    """The process that holds the meeting is killed, and the rest of its node is well: all meet again, and pass."""
    hosts = make_hosts(3)
    meeting = Meeting(hosts, tmp_path / "run", ["inter-allreduce"], iterations=20, seconds=15)
    meeting.wait_for(lambda one: one.test == "inter-allreduce")
    os.kill(coordinator(tmp_path / "run"), signal.SIGKILL)
    said = meeting.nodes()
    assert {node.probes[-1].facts["coordinator"] for node in said.values()} == {1}
    found = gathering.read([tmp_path / "run"]).measurements
    assert accused(found) == set()
    assert (0, 1, 2) in figures(found, "inter-allreduce")
    verdicts = {node.node: node.verdict for node in judged(tmp_path / "run").nodes}
    assert verdicts == {0: "warning", 1: "pass", 2: "pass"}


def coordinator(folder: Path) -> int:
    """The child of node 0's agent that is no worker, which lead groups of their own."""
    agents = {one.pid: one for one in linux.processes() if _is_agent(one.pid, folder)}
    (found,) = (one.pid for one in agents.values() if one.parent in agents and one.group != one.pid)
    return found


def _is_agent(pid: int, folder: Path) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:  # it has ended
        return False
    return "nsenter" not in words[0] and str(folder) in words


def test_hosts_without_a_common_workspace(make_hosts: MakeHosts, tmp_path: Path) -> None:
    """Started by hand, each with files of its own: node 0 has what all have seen, and judges each by it."""
    hosts, path = make_hosts(3), str(install(tmp_path / "site"))
    for name in ("node2", "node3"):
        hosts.hide(name, tmp_path / "out")
    nodes = Nodes(hosts, tmp_path / "out")
    nodes.start("preflight", "--host", "--run-id=check", PYTHONPATH=path, SICK="finds", SICK_NODES="1")
    first, *others = nodes.end()
    assert (first.code, [one.code for one in others]) == (3, [0, 0]), first.text
    assert [node(tmp_path / "out", number).complete for number in range(3)] == [True] * 3
    assert (run_folder(tmp_path / "out") / "failing_nodes.txt").read_text().split() == ["node2"]
    assert "a cold" in first.text
    assert first.seconds < 60
