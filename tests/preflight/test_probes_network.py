"""Looks at the network: what this node's side of it is, and settings that name what is not there."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from primus_core.outcome import Finding
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import probe_all
from primus_preflight.model import Probe
from primus_preflight.probes import network
from primus_preflight.probes.network import interfaces, names, rdma, routes
from primus_preflight.probes.network.addresses import normal, own_addresses, parsed, same
from primus_preflight.settings.naming import chosen, named_devices, named_interfaces
from tests.preflight.nodes import files, node, plan


def test_this_hosts_network_is_told_as_it_is() -> None:
    """Every look works on this machine; nothing of it is taken for broken."""
    probes = {probe.name: probe for probe in probe_all(network.looks(Looked(plan=plan())))}
    assert list(probes) == ["interfaces", "rdma", "names", "routes", "settings"]
    assert {probe.status for probe in probes.values()} <= {"ok", "unavailable"}
    there = probes["interfaces"].facts["interfaces"]
    assert isinstance(there, dict)
    assert "lo" in there
    assert probes["names"].facts["host"] == socket.gethostname()
    assert probes["routes"].error == "no other host is named: neither MASTER_ADDR nor hosts of a launcher"
    assert [finding for probe in probes.values() for finding in probe.findings if finding.severity == "error"] == []


@pytest.mark.skipif(shutil.which("ip") is None, reason="the program `ip` is what the answer is compared with")
def test_addresses_are_those_that_ip_tells() -> None:
    """The kernel's own answer is read as `ip` reads it."""
    told = json.loads(subprocess.run(["ip", "-json", "address"], capture_output=True, check=True).stdout)
    expected = {
        link["ifname"]: tuple(one["local"] for one in link["addr_info"] if one["scope"] != "link") for link in told
    }
    assert own_addresses() == {name: addresses for name, addresses in expected.items() if addresses}


def test_the_near_end_of_a_point_to_point_link_counts() -> None:
    """Its message has the far end's address too; a message that is cut is passed over."""
    far, near = (
        struct.pack("=HH4s", 8, kind, bytes(address)) for kind, address in ((1, [10, 0, 0, 9]), (2, [10, 0, 0, 1]))
    )
    body = struct.pack("=BBBBi", socket.AF_INET, 32, 0, 0, 7) + far + near
    message = struct.pack("=IHHII", 16 + len(body), 20, 0, 1, 0) + body
    assert list(parsed(message)) == [(7, "10.0.0.1")]
    assert list(parsed(message + message[:10])) == [(7, "10.0.0.1")]


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ("fe80::1", "FE80:0:0::1", True),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("[fd00::2]", "fd00::2", True),
        ("fe80::1%eth0", "fe80::1", True),
        ("10.0.0.1", "10.0.0.10", False),
    ],
)
def test_addresses_are_compared_as_addresses(first: str, second: str, equal: bool) -> None:
    """Not as text."""
    assert same(first, second) is equal
    assert normal("node-7") == "node-7"


def cards(root: Path, speeds: dict[str, int], mtu: int = 9000) -> Path:
    for name, speed in speeds.items():
        folder = f"sys/class/net/{name}"
        files(root, {f"{folder}/mtu": f"{mtu}\n", f"{folder}/speed": f"{speed}\n", f"{folder}/carrier": "1\n"})
        files(root, {f"{folder}/type": "1\n", f"{folder}/device/uevent": ""})
        (root / folder / "device/driver").symlink_to("../../bus/pci/drivers/mlx5_core")
    return root


def test_a_card_slower_than_its_siblings_is_named(tmp_path: Path) -> None:
    """Among cards of one driver; two that differ are not judged, for nobody knows which is meant."""
    root = cards(tmp_path, {"eth0": 400000, "eth1": 400000, "eth2": 100000, "eth3": 400000})
    found = interfaces.interfaces(root, {"eth0": ("10.0.0.1",)})
    assert [one.addresses for one in found] == [("10.0.0.1",), (), (), ()]
    (finding,) = interfaces.judged(found)
    assert finding.summary == "the interface eth2 has 100000 Mbit/s, the others of its kind 400000"
    assert list(interfaces.judged(found[1:3])) == []


def test_a_card_with_another_mtu_is_named(tmp_path: Path) -> None:
    """Packets of the others would be cut for it."""
    cards(tmp_path, {"eth0": 400000, "eth1": 400000, "eth2": 400000})
    files(tmp_path, {"sys/class/net/eth1/mtu": "1500\n"})
    assert [one.check for one in interfaces.judged(interfaces.interfaces(tmp_path, {}))] == ["network.mtu"]


def port(root: Path, device: str, **facts: str) -> None:
    told = {"state": "4: ACTIVE", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand", **facts}
    folder = f"sys/class/infiniband/{device}"
    files(root, {f"{folder}/ports/1/{name.replace('__', '/')}": f"{text}\n" for name, text in told.items()})
    files(root, {f"{folder}/fw_ver": "28.39.2048\n"})


def test_rdma_devices(tmp_path: Path) -> None:
    """Ports, rates, firmware and addresses are read; the empty places of a port's table are left out."""
    port(tmp_path, "mlx5_0")
    gids = {"gids__0": "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "gid_attrs__types__0": "IB/RoCE v1"}
    gids |= {"gids__3": "0000:0000:0000:0000:0000:ffff:0a00:0001", "gid_attrs__types__3": "RoCE v2"}
    gids |= {"gids__4": "0000:0000:0000:0000:0000:0000:0000:0000"}
    port(tmp_path, "mlx5_1", link_layer="Ethernet", **gids)
    outcome = rdma.look(node(tmp_path))
    assert (outcome.facts["active"], outcome.facts["rates_gbps"]) == (2, [400.0])
    assert outcome.facts["firmware"] == ["28.39.2048"]
    second = rdma.ports(tmp_path)[1]
    assert second.facts["roce_v2_gids"] == [3]
    assert [(gid.index, gid.has_ipv4) for gid in second.gids] == [(0, False), (3, True)]
    assert outcome.findings == ()


def test_rdma_ports_that_are_down_or_slow(tmp_path: Path) -> None:
    """Each is named; where all are down, the network of this node is another one."""
    for number in range(4):
        port(tmp_path, f"mlx5_{number}")
    port(tmp_path, "mlx5_1", state="1: DOWN")
    port(tmp_path, "mlx5_2", rate="100 Gb/sec (4X EDR)")
    port(tmp_path, "mlx5_4")
    checks = [(finding.check, finding.summary) for finding in rdma.look(node(tmp_path)).findings]
    assert checks == [
        ("network.rdma-port", "the RDMA port mlx5_1:1 is not active"),
        ("network.rdma-rate", "the RDMA port mlx5_2:1 has 100 Gbit/s, most others 400"),
    ]
    for number in range(5):
        port(tmp_path, f"mlx5_{number}", state="1: DOWN")
    assert rdma.look(node(tmp_path)).findings == ()


def test_roce_without_version_2(tmp_path: Path) -> None:
    """A port on Ethernet whose addresses are all of version 1 reaches no other subnet."""
    gids = {"gids__0": "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "gid_attrs__types__0": "IB/RoCE v1"}
    port(tmp_path, "bnxt_re0", link_layer="Ethernet", **gids)
    assert [finding.check for finding in rdma.look(node(tmp_path)).findings] == ["network.roce"]


def checks_of(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.check, finding.severity) for finding in findings]


@pytest.mark.parametrize(
    ("found", "own", "expected"),
    [
        (["10.0.0.1"], {"10.0.0.1", "127.0.0.1"}, []),
        ([], {"10.0.0.1"}, [("network.name", "warning")]),
        (["127.0.1.1"], {"10.0.0.1", "127.0.0.1"}, [("network.name-loopback", "warning")]),
        (["10.0.0.9"], {"10.0.0.1"}, [("network.name-other", "error")]),
        (["127.0.1.1", "10.0.0.1"], {"10.0.0.1"}, []),
    ],
)
def test_a_hosts_own_name(found: list[str], own: set[str], expected: list[tuple[str, str]]) -> None:
    """It must lead to an address of the host that others can reach."""
    assert checks_of(list(names.judged("node-1", found, own))) == expected


def test_a_meeting_point_whose_name_leads_nowhere() -> None:
    """It was really looked up, and is an error that names it."""
    probe = looked_at("names", {"MASTER_ADDR": "no-such-host.invalid"}, nodes=2)
    (finding,) = [one for one in probe.findings if one.check == "network.peer-name"]
    assert (finding.severity, "no-such-host.invalid" in finding.summary) == ("error", True)


def test_the_way_to_a_peer() -> None:
    """The interface that leads there is told with this node's address on it."""
    for written in ("127.0.0.1", "[127.0.0.1]"):
        probe = looked_at("routes", {"MASTER_ADDR": written}, nodes=2)
        assert probe.facts["peers"] == {"127.0.0.1": {"interface": "lo", "from": "127.0.0.1"}}


def test_peers_are_hosts_without_users_and_ports() -> None:
    """As `--hosts` takes them; that other hosts do not know a name of the user's ssh configuration is no fault."""
    hosts = ("me@127.0.0.1:2222", "[::1]:22", "my-alias.invalid")
    env = {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
    found = {name: looked_at(name, env, nodes=3, hosts=hosts) for name in ("names", "routes")}
    addresses = {"127.0.0.1": ["127.0.0.1"], "::1": ["::1"], "my-alias.invalid": []}
    assert found["names"].facts["peers"] == addresses
    assert set(found["routes"].facts["peers"]) == {"127.0.0.1", "::1"}
    assert found["names"].findings == ()
    assert [one.check for one in found["routes"].findings] == ["network.meeting-point"]  # of 127.0.0.1


def test_a_meeting_point_left_over_in_the_shell() -> None:
    """On one node nobody meets there."""
    env = {"MASTER_ADDR": "node-of-last-week.invalid"}
    assert looked_at("names", env).findings == ()
    assert [probe.status for probe in probe_all(network.looks(Looked(plan=plan(), env=env)))][3] == "unavailable"


def test_the_first_address_to_which_a_way_leads_counts() -> None:
    """A host may have an address of a kind that this one has not."""
    assert routes.first_way(["ff0e::1:2:3%nothing", "127.0.0.1"]) == ("lo", "127.0.0.1")
    assert routes.first_way(["ff0e::1:2:3%nothing"]) == ("", "")


def test_a_peer_to_which_nothing_leads() -> None:
    """An address that no host can have has no route."""
    assert routes.way_to("ff0e::1:2:3%nothing") == ("", "")
    assert checks_of(list(routes.judged({"far": ("", "")}, 2))) == [("network.route", "error")]


def test_a_meeting_point_that_every_node_takes_for_itself() -> None:
    """On several nodes localhost is no place to meet; on one it is."""
    ways = {"localhost": ("lo", "127.0.0.1")}
    assert checks_of(list(routes.judged(ways, 2))) == [("network.meeting-point", "warning")]
    assert list(routes.judged(ways, 1)) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("eth", ["eth0", "eth1"]),
        ("eth1,ib", ["eth1", "ib0"]),
        ("=eth", []),
        ("=eth0", ["eth0"]),
        ("^docker,lo", ["eth0", "eth1", "ib0"]),
        ("^=eth0", ["docker0", "eth1", "ib0", "lo"]),
        ("ens", []),
    ],
)
def test_ncclss_way_to_name_interfaces(value: str, expected: list[str]) -> None:
    """Beginnings, whole names after ``=``, all others after ``^``."""
    assert chosen(value, ["docker0", "eth0", "eth1", "ib0", "lo"]) == expected


def test_settings_that_name_no_interface() -> None:
    """An interface that this machine really lacks, in NCCL's and in Gloo's setting, is an error each."""
    probe = looked_at("settings", {"NCCL_SOCKET_IFNAME": "nosuch", "GLOO_SOCKET_IFNAME": "lo,nosuch"})
    assert checks_of(list(probe.findings)) == [("settings.interfaces", "error")] * 2
    assert "lo" in probe.findings[0].evidence
    assert looked_at("settings", {"NCCL_SOCKET_IFNAME": "^nosuch", "GLOO_SOCKET_IFNAME": "lo"}).findings == ()


def test_loopback_leads_to_no_other_node() -> None:
    """It is right on one node, and doubtful on two."""
    env = {"NCCL_SOCKET_IFNAME": "=lo", "GLOO_SOCKET_IFNAME": "lo"}
    assert list(named_interfaces(env, ["eth0", "lo"], nodes=1)) == []
    assert checks_of(list(named_interfaces(env, ["eth0", "lo"], nodes=2))) == [("settings.loopback", "warning")] * 2


def test_settings_that_name_no_device(tmp_path: Path) -> None:
    """RDMA devices and places in a port's table that are not there are errors."""
    gids = {"gids__3": "0000:0000:0000:0000:0000:ffff:0a00:0001", "gid_attrs__types__3": "RoCE v2"}
    port(tmp_path, "mlx5_0", link_layer="Ethernet", **gids)
    there = rdma.ports(tmp_path)
    assert list(named_devices({"NCCL_IB_HCA": "mlx5_0:1", "NCCL_IB_GID_INDEX": "3"}, there)) == []
    assert checks_of(list(named_devices({"NCCL_IB_HCA": "=mlx4"}, there))) == [("settings.devices", "error")]
    (finding,) = named_devices({"NCCL_IB_GID_INDEX": "5"}, there)
    assert finding.summary == "NCCL_IB_GID_INDEX=5 is no address of mlx5_0:1"
    assert checks_of(list(named_devices({"NCCL_IB_HCA": "mlx5"}, []))) == [("settings.devices", "error")]


def looked_at(name: str, env: dict[str, str], nodes: int = 1, hosts: tuple[str, ...] = ()) -> Probe:
    made = plan(nodes)
    about = Looked(plan=evolve(made, job=evolve(made.job, options={"hosts": list(hosts)})), env=env)
    (look,) = [one for one in network.looks(about) if one.name == name]
    (probe,) = probe_all([look])
    assert (probe.status, probe.error) == ("ok", "")
    return probe


@pytest.mark.cluster
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network namespace")
def test_a_host_without_a_network() -> None:
    """In a namespace with nothing but a loopback that is down, looks tell it without an error of their own."""
    code = (
        "from primus_preflight.agent.looked import Looked\n"
        "from primus_preflight.agent.probing import probe_all\n"
        "from primus_preflight.probes import network\n"
        "from tests.preflight.nodes import plan\n"
        "about = Looked(plan=plan(nodes=2), env={'MASTER_ADDR': '10.1.2.3'})\n"
        "for probe in probe_all(network.looks(about)):\n"
        "    print(probe.name, probe.status, *[finding.check for finding in probe.findings])\n"
    )
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "routes ok network.route" in done.stdout
    assert "interfaces ok\n" in done.stdout
