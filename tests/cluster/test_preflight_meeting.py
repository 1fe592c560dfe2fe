"""Agents on several hosts that meet: whatever names and addresses hosts have, and whichever of them is lost."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from tests.cluster.conftest import MakeHosts
from tests.cluster.meeting import Meeting, figures

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
