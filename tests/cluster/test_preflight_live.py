"""`primus preflight` on four hosts as users call it: healthy ones pass, and what is wrong is named."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from primus_core.codec import from_json
from primus_core.experiment import Value
from primus_preflight.judging import Report
from tests.cluster.conftest import MakeHosts
from tests.cluster.several import Nodes
from tests.e2e.support import environment
from tests.preflight.sick import node, probe, run_folder
from tests.testbed.hosts import Hosts
from tests.testbed.slurm import primus

pytestmark = pytest.mark.cluster

AHEAD = 90


@pytest.fixture
def hosts(make_hosts: MakeHosts) -> Hosts:
    """Four, each with a link of 400 Mbit/s, that see their own interfaces alone."""
    made = make_hosts(4)
    for name in made.names:
        made.limit(name, "400mbit")
        made.check(name, ["mount", "-t", "sysfs", "sysfs", "/sys"])
    return made


def reported(
    hosts: Hosts, folder: Path, *words: str, each: Mapping[int, Mapping[str, str]] | None = None
) -> tuple[int, Report]:
    """The exit code of the first host, and what was judged."""
    nodes = Nodes(hosts, folder / "out")
    nodes.start("preflight", *words, "--run-id=check", each=each)
    first, *_ = nodes.end()
    path = run_folder(folder / "out") / "report.json"
    assert path.exists(), first.text
    print(first.text)
    return first.code, from_json(Report, path.read_text(encoding="utf-8"))


def failures(report: Report) -> set[tuple[str, tuple[str, ...]]]:
    """What is wrong, and where."""
    names = {one.node: one.host for one in report.nodes}
    return {
        (fault.kind, tuple(names[node] for node in fault.nodes))
        for fault in report.faults
        if fault.level not in ("pass", "warning")
    }


def test_healthy_hosts_pass_in_a_minute(hosts: Hosts, tmp_path: Path) -> None:
    """`--quick` takes 60 s at most, and finds nothing that keeps a host from taking part."""
    began = time.monotonic()
    code, report = reported(hosts, tmp_path, "--quick")
    assert time.monotonic() - began < 60
    assert (code, failures(report)) == (0, set())
    assert {one.verdict for one in report.nodes} <= {"pass", "warning"}
    assert [(one.test, one.members, one.measured) for one in report.comparisons] == [
        ("gemm", 1, 4),
        ("inter-allreduce", 2, 6),
        ("inter-allreduce", 4, 1),
    ]


def test_two_slow_hosts_are_both_named(hosts: Hosts, tmp_path: Path) -> None:
    """`--quick` with one slow host in each half: both are named, and nobody else."""
    for name in ("node2", "node3"):
        hosts.limit(name, "100mbit")
    code, report = reported(hosts, tmp_path, "--quick", "--gemm-size=128", "--sizes=2M")
    assert (code, failures(report)) == (3, {("slow", ("node2",)), ("slow", ("node3",))})
    assert {one.host for one in report.nodes if one.verdict == "failure"} == {"node2", "node3"}


@pytest.mark.skipif(shutil.which("faketime") is None, reason="not installed: faketime")
def test_a_clock_that_is_wrong_and_what_the_network_looks_like(hosts: Hosts, tmp_path: Path) -> None:
    """A host whose clock is 90 s ahead fails, the others do not; each look at the network tells what the host has."""
    code, report = reported(hosts, tmp_path, "--network", each={2: ahead(AHEAD)})
    assert (code, failures(report)) == (3, {("clock", ("node3",))})
    (clock,) = (fault for fault in report.faults if fault.kind == "clock")
    assert "90 s ahead" in clock.evidence[0]
    for number, looked in enumerate(report.gathered.nodes):
        address = hosts.address(hosts.names[number])
        seen = {one.name: one.facts for one in looked.probes if one.status == "ok"}
        assert seen["interfaces"]["addresses"] == [address]
        assert list(mapping(seen["interfaces"]["interfaces"])) == ["eth0", "lo"]
        assert seen["names"]["found"] == [address]
        assert seen["names"]["peers"] == {"node1": [hosts.address("node1")]}
        assert seen["routes"]["peers"] == {"node1": {"interface": "eth0", "from": address}}
    reached = {one.nodes for one in report.gathered.measurements if one.test == "reach" and one.status == "ok"}
    assert len(reached) == 12


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--gpu",), 1)])
def test_a_host_without_sys(make_hosts: MakeHosts, tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """As in a container that hides ``/sys``: what cannot be seen is no fault, unless accelerators were asked for."""
    hosts = make_hosts(1)
    hosts.hide("node1", Path("/sys"))
    argv = primus("preflight", *words)
    started = hosts.start("node1", argv, env=environment(tmp_path / "out"), cwd=tmp_path)
    out, err = started.communicate(timeout=120)
    seen = node(tmp_path / "out")
    assert started.returncode == code, out + err
    assert {one.status for one in seen.probes} <= {"ok", "unavailable"}, seen.probes
    assert ("has no accelerator to look at, and --gpu asks for one" in out) == (code == 1)
    assert probe(seen, "interfaces" if not words else "accelerators").status == ("unavailable" if words else "ok")


def mapping(value: Value) -> Mapping[str, Value]:
    """A fact that has names of its own."""
    assert isinstance(value, dict)
    return value


def ahead(seconds: int) -> Mapping[str, str]:
    """Variables with which programs see another time."""
    command = ["faketime", "-f", f"+{seconds}s", "env", "--null"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return {
        name: value for name, _, value in (line.partition("=") for line in told) if name in ("LD_PRELOAD", "FAKETIME")
    }
