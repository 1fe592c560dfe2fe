"""Looks at the host tell what its files say, and complain of what is wrong alone."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from primus_core.codec import to_json
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Look, Outcome, Unavailable, probe_all
from primus_preflight.probes import host
from primus_preflight.probes.host import cgroups, clock, kernellog, limits, pcie, strays, system
from primus_preflight.resources import Needs, shortages
from tests.preflight.nodes import files, node, plan, recorded

MEMORY = "MemTotal: 263856332 kB\nMemFree: 1000 kB\nMemAvailable: 250000000 kB\n"
CPUINFO = """processor\t: 0
model name\t: AMD EPYC 9534 64-Core Processor
physical id\t: 0
core id\t\t: 0

processor\t: 1
model name\t: AMD EPYC 9534 64-Core Processor
physical id\t: 1
core id\t\t: 0
"""


def test_this_host_is_told_as_it_is() -> None:
    """Every look works on this machine, with one answer each, and none takes it for broken."""
    probes = probe_all(host.looks(Looked(plan=plan())))
    assert [probe.name for probe in probes] == ["system", "limits", "clock", "pcie", "kernel-log", "strays"]
    assert {probe.status for probe in probes} <= {"ok", "unavailable"}
    told = {probe.name: probe for probe in probes}
    assert told["system"].facts["kernel"] == os.uname().release
    assert told["system"].facts["cpus"] == os.cpu_count()
    assert told["limits"].facts["open_files"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert abs(float(str(told["clock"].facts["time"])) - time.time()) < 60
    assert [finding for probe in probes for finding in probe.findings if finding.severity == "error"] == []


def test_a_host_without_sys_is_no_fault(tmp_path: Path) -> None:
    """In a container without ``/sys``, looks say what is not there, and complain of nothing."""
    root = files(tmp_path, {"proc/meminfo": MEMORY, "proc/cpuinfo": CPUINFO})
    probes = probe_all(host.looks(node(root)))
    assert {probe.name: probe.status for probe in probes} == {
        "system": "ok",
        "limits": "ok",
        "clock": "ok",
        "pcie": "unavailable",
        "kernel-log": "unavailable",
        "strays": "unavailable",
    }
    assert [finding for probe in probes for finding in probe.findings] == []


def test_processors_and_memory(tmp_path: Path) -> None:
    """Sockets, cores, threads and NUMA nodes are counted; sizes are bytes."""
    numa = {f"sys/devices/system/node/node{number}/cpulist": f"{number}\n" for number in (0, 1, 10)}
    facts = system.facts_of(files(tmp_path, {"proc/meminfo": MEMORY, "proc/cpuinfo": CPUINFO, **numa}))
    assert facts["cpu_model"] == "AMD EPYC 9534 64-Core Processor"
    assert (facts["sockets"], facts["cores"], facts["cpus"]) == (2, 2, 2)
    assert facts["memory_bytes"] == 263856332 * 1024
    assert facts["numa_nodes"] == {"0": "0", "1": "1", "10": "10"}
    assert list(system.judged(facts, accelerators=8)) == []


def test_memory_that_others_use_is_told() -> None:
    """Below a tenth of the memory the node is not free."""
    facts = {"memory_bytes": 100 << 30, "memory_available_bytes": 9 << 30, "numa_nodes": {}, "numa_balancing": None}
    (finding,) = system.judged(facts, accelerators=0)
    assert (finding.check, finding.severity) == ("host.memory", "warning")
    assert "9.0 GiB" in finding.summary


@pytest.mark.parametrize(("accelerators", "nodes", "told"), [(8, 2, True), (0, 2, False), (8, 1, False)])
def test_automatic_numa_balancing_matters_beside_accelerators(accelerators: int, nodes: int, told: bool) -> None:
    """A desktop or a host with one NUMA node is left alone."""
    numa = {str(number): "0" for number in range(nodes)}
    facts = {"memory_bytes": None, "memory_available_bytes": None, "numa_nodes": numa, "numa_balancing": 1}
    assert bool(list(system.judged(facts, accelerators))) is told


def test_few_open_files_are_found() -> None:
    """A limit that was really lowered is told with what the run needs, and how to raise it."""

    def take() -> Outcome:
        resource.setrlimit(resource.RLIMIT_NOFILE, (600, 600))
        return limits.look(Looked(plan=plan(nodes=64)))

    (probe,) = probe_all([Look(name="limits", group="host", take=take)])
    (finding,) = [one for one in probe.findings if one.check == "host.open-files"]
    assert probe.facts["open_files"] == 600
    assert "640" in finding.evidence
    assert "ulimit -n" in finding.remedy


def test_locked_memory_matters_to_rdma_alone() -> None:
    """A finite limit is a fault only where a device registers memory."""
    facts = {"locked_memory_bytes": 8 << 20}
    without, (finding,) = (list(shortages(facts, Needs(rdma=rdma))) for rdma in (False, True))
    assert without == []
    assert (finding.check, "8.0 MiB" in finding.summary) == ("host.locked-memory", True)


@pytest.mark.cluster
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_full_shared_memory_is_found() -> None:
    """Where a file system of 16 MiB is mounted, as Docker's default would be of 64, the look warns."""
    code = (
        "from tests.preflight.nodes import plan\n"
        "from primus_core.codec import to_json\n"
        "from primus_preflight.agent.looked import Looked\n"
        "from primus_preflight.probes.host import limits\n"
        "print(to_json(limits.look(Looked(plan=plan())).findings))\n"
    )
    mount = 'mount -t tmpfs -o size=16m none /dev/shm && exec "$0" -c "$1"'
    argv = ["unshare", "--mount", "sh", "-c", mount, sys.executable, code]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert "only 16.0 MiB are left in /dev/shm" in done.stdout


@pytest.mark.parametrize(
    ("group", "contents", "expected"),
    [
        ("0::/job/step", {"job/step/memory.max": "max", "job/memory.max": "1000", "memory.max": "5000"}, 1000),
        ("0::/outside/docker", {"memory.max": "7000", "cgroup.controllers": ""}, 7000),
        ("0::/", {"memory.max": "max"}, None),
        ("4:memory:/job", {"memory/job/memory.limit_in_bytes": "3000"}, 3000),
        ("4:memory:/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
    ],
)
def test_the_tightest_limit_of_a_control_group_counts(
    group: str, contents: dict[str, str], expected: int | None, tmp_path: Path
) -> None:
    """Of version 2 or 1, in a container or not; the kernel's largest number is no limit."""
    tree = {"proc/self/cgroup": f"{group}\n", **{f"sys/fs/cgroup/{name}": text for name, text in contents.items()}}
    assert cgroups.cgroup_facts(files(tmp_path, tree))["memory_limit_bytes"] == expected


@pytest.mark.parametrize(
    ("group", "contents"),
    [
        ("0::/", {"cpu.max": "350000 100000"}),
        ("1:cpu,cpuacct:/", {"cpu/cpu.cfs_quota_us": "350000", "cpu/cpu.cfs_period_us": "100000"}),
    ],
)
def test_cpus_of_a_control_group(group: str, contents: dict[str, str], tmp_path: Path) -> None:
    """A quota of time is so many CPUs."""
    tree = {"proc/self/cgroup": f"{group}\n", **{f"sys/fs/cgroup/{name}": text for name, text in contents.items()}}
    assert cgroups.cgroup_facts(files(tmp_path, tree))["cpu_limit"] == 3.5


def test_few_tasks_are_told() -> None:
    """A container that may start 100 threads is too small for torch."""
    assert [one.check for one in limits.confined({"tasks_limit": 100})] == ["host.tasks"]
    assert list(limits.confined({"tasks_limit": None})) == []


@pytest.mark.parametrize(
    ("synchronized", "keeper", "nodes", "told"),
    [(False, None, 2, True), (False, None, 1, False), (None, None, 2, False), (False, "chronyd", 2, False)],
)
def test_a_clock_that_nobody_keeps(synchronized: bool | None, keeper: str | None, nodes: int, told: bool) -> None:
    """It matters where there are several nodes, and is not claimed where a container hides the truth."""
    facts = {"synchronized": synchronized, "keeper": keeper}
    assert bool(list(clock.judged(facts, nodes))) is told


def test_the_keeper_of_the_clock_is_known_by_its_name(tmp_path: Path) -> None:
    """The kernel cuts names to 15 characters."""
    tree = {"proc/1/comm": "systemd\n", "proc/44/comm": "systemd-timesyn\n", "proc/meminfo": ""}
    assert clock.keeper(files(tmp_path, tree)) == "systemd-timesyn"


def card(address: str, vendor: str, kind: str, width: tuple[int, int], speed: tuple[float, float]) -> dict[str, str]:
    folder = f"sys/bus/pci/devices/{address}"
    return {
        f"{folder}/class": f"{kind}00\n",
        f"{folder}/vendor": f"{vendor}\n",
        f"{folder}/current_link_width": f"{width[0]}\n",
        f"{folder}/max_link_width": f"{width[1]}\n",
        f"{folder}/current_link_speed": f"{speed[0]} GT/s PCIe\n",
        f"{folder}/max_link_speed": f"{speed[1]} GT/s PCIe\n",
        f"{folder}/numa_node": "1\n",
    }


def test_slow_links_are_named(tmp_path: Path) -> None:
    """Fewer lanes than possible, or a slower one; NVIDIA's cards slow down when they idle, and may."""
    root = files(
        tmp_path,
        {
            **card("0000:05:00.0", pcie.AMD, "0x1200", (16, 16), (32.0, 32.0)),
            **card("0000:15:00.0", pcie.AMD, "0x1200", (8, 16), (32.0, 32.0)),
            **card("0000:25:00.0", pcie.NVIDIA, "0x0302", (16, 16), (2.5, 32.0)),
            **card("0000:35:00.0", "0x15b3", "0x0207", (16, 16), (16.0, 32.0)),
            **card("0000:45:00.0", "0x8086", "0x0108", (2, 4), (8.0, 16.0)),  # a disk
        },
    )
    outcome = pcie.look(node(root))
    links = outcome.facts["links"]
    assert isinstance(links, dict)
    assert list(links) == ["0000:05:00.0", "0000:15:00.0", "0000:25:00.0", "0000:35:00.0"]
    assert [finding.summary for finding in outcome.findings] == [
        "the PCIe link of accelerator 0000:15:00.0 runs at x8 instead of x16",
        "the PCIe link of network 0000:35:00.0 runs at 16 GT/s instead of 32 GT/s",
    ]


def test_a_card_in_a_small_slot_is_as_fast_as_it_can_be(tmp_path: Path) -> None:
    """What the port above cannot do is no fault of the link."""
    address = "0000:05:00.0"
    tree = card(address, pcie.AMD, "0x1200", (8, 16), (16.0, 32.0))
    port = "sys/devices/pci0000:00/0000:00:01.0"
    files(tmp_path, {name.replace("sys/bus/pci/devices", port): content for name, content in tree.items()})
    files(tmp_path, {f"{port}/max_link_width": "8\n", f"{port}/max_link_speed": "16.0 GT/s PCIe\n"})
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices" / address).symlink_to(tmp_path / port / address)
    assert pcie.look(node(tmp_path)).findings == ()


def test_a_virtual_machine_knows_nothing_of_links(tmp_path: Path) -> None:
    """``Unknown`` and 0 lanes are no slow link."""
    tree = card("0000:05:00.0", pcie.NVIDIA, "0x0302", (0, 255), (0.0, 0.0))
    tree["sys/bus/pci/devices/0000:05:00.0/current_link_speed"] = "Unknown\n"
    assert pcie.look(node(files(tmp_path, tree))).findings == ()


def test_faults_in_the_kernels_log(tmp_path: Path) -> None:
    """Hardware's own faults are errors, a link that goes down often a warning; programs' faults and all-clears none."""
    root = files(tmp_path, {"dev/kmsg": recorded("kmsg.txt"), "proc/uptime": "90000.00 1.0\n"})
    outcome = kernellog.look(node(root))
    assert outcome.facts["faults"] == {"xid": 1, "ecc": 1, "link-flap": 4}
    assert {finding.check: finding.severity for finding in outcome.findings} == {
        "host.kernel-log.xid": "error",
        "host.kernel-log.ecc": "error",
        "host.kernel-log.link-flap": "warning",
    }
    flap = outcome.findings[-1]
    assert "3 times of a fault of enp94s0np0" in flap.summary


@pytest.mark.parametrize(
    ("said", "times", "expected"),
    [
        ("AER: Uncorrected (Fatal) error received: 0000:00:01.0", 1, ("aer", "error")),
        ("AER: Multiple Uncorrectable (Fatal) error message received from 0000:00:01.0", 1, ("aer", "error")),
        ("PCIe Bus Error: severity=Uncorrected (Fatal), type=Data Link Layer, (Receiver ID)", 1, ("aer", "error")),
        ("PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Inaccessible, (x)", 1, ("aer-non-fatal", "warning")),
        ("PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Inaccessible", 1, ("aer-non-fatal", "warning")),
        ("AER: Uncorrected (Non-Fatal) error received: 0000:00:01.0", 1, None),  # its device's line follows
        ("PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)", 100, ("aer-corrected", "warning")),
        ("PCIe Bus Error: severity=Correctable, type=Physical Layer, (x)", 99, None),
        ("AER: Corrected error received: 0000:00:01.0", 100, None),
        ("AER: enabled with IRQ 122", 1, None),
    ],
)
def test_errors_of_pcie_by_their_severity(
    said: str, times: int, expected: tuple[str, str] | None, tmp_path: Path
) -> None:
    """Fatal ones alone fail a node; corrected ones are told where there are many. Old and new words of the kernel."""
    log = "".join(f"3,{number},8000000{number:02d},-;pcieport 0000:00:01.0: {said}\n" for number in range(times))
    found = kernellog.look(node(files(tmp_path, {"dev/kmsg": log, "proc/uptime": "900.00 1.0\n"}))).findings
    told = [(finding.check.removeprefix("host.kernel-log."), finding.severity) for finding in found]
    assert told == [expected] * (expected is not None)


def test_old_faults_are_warnings(tmp_path: Path) -> None:
    """What was told three days ago may have been mended since."""
    root = files(tmp_path, {"dev/kmsg": recorded("kmsg.txt"), "proc/uptime": "345600.00 1.0\n"})
    assert {finding.severity for finding in kernellog.look(node(root)).findings} == {"warning"}


@pytest.mark.cluster
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may write to the kernel's log")
def test_the_real_log_is_read() -> None:
    """A line that was really written to the kernel's log is found there."""
    address = f"dead:{os.getpid() % 100:02d}:00"
    Path("/dev/kmsg").write_text(f"NVRM: Xid (PCI:{address}): 43, a line of a test, of no device\n")
    lines = kernellog._lines(Path("/dev/kmsg"))
    assert any(address in line for line in lines)


def test_a_log_that_is_closed_is_unavailable(tmp_path: Path) -> None:
    """The look says why it could not be taken."""
    with pytest.raises(Unavailable, match="No such file"):
        kernellog.look(node(tmp_path))


def test_processes_that_hold_accelerators_are_named(tmp_path: Path) -> None:
    """Those that have a device open, and those that AMD's driver knows; services of the system are none."""
    root = files(
        tmp_path,
        {
            "dev/kfd": "",
            "proc/700/comm": "python\n",
            "proc/701/comm": "nvidia-persistenced\n"[:15],
            "proc/702/comm": "bash\n",
            "proc/703/comm": "train\n",
            "sys/class/kfd/kfd/proc/703/pasid": "32770\n",
        },
    )
    for pid, target in ((700, "/dev/nvidia3"), (701, "/dev/nvidia0"), (702, "/dev/null")):
        (root / f"proc/{pid}/fd").mkdir()
        (root / f"proc/{pid}/fd/4").symlink_to(target)
    outcome = strays.look(node(root))
    (finding,) = outcome.findings
    assert "python (process 700" in finding.evidence
    assert "train (process 703" in finding.evidence
    assert "701" not in to_json(outcome)
    assert "702" not in to_json(outcome)


def test_the_looks_own_processes_are_no_strays() -> None:
    """The agent, what started it and what it started hold devices rightly."""
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert {os.getpid(), os.getppid(), child.pid} <= strays.family()
        assert 1 not in strays.family() or os.getppid() == 1
    finally:
        child.kill()
        child.wait()
