"""Where a rank belongs on its host, and that it runs there."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from primus_core.rank.numa import BOUND, WISH, Binding, choose, outcome
from tests.core.rankruns import Ranks

Host = Callable[..., Path]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Writes what a host's kernel would show of NUMA nodes, cores and devices."""

    def make(
        nodes: Sequence[str],
        cores: Sequence[int] = (),
        cuda: Sequence[str] = (),
        rocm: Sequence[str] = (),
        near: Sequence[int] = (),
    ) -> Path:
        def put(path: str, text: str) -> None:
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")

        for number, cpus in enumerate(nodes):
            put(f"sys/devices/system/node/node{number}/cpulist", cpus)
        for cpu, core in enumerate(cores):
            put(f"sys/devices/system/cpu/cpu{cpu}/topology/core_id", str(core))
            put(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", "0")
        for address in cuda:
            put(f"proc/driver/nvidia/gpus/{address}/information", "")
        put("sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 64\nsimd_count 0")
        for number, address in enumerate(rocm, start=1):
            domain, bus, rest = address.split(":")
            device, function = rest.split(".")
            place = int(bus, 16) << 8 | int(device, 16) << 3 | int(function)
            text = f"simd_count 1216\ndomain {int(domain, 16)}\nlocation_id {place}"
            put(f"sys/class/kfd/kfd/topology/nodes/{number}/properties", text)
        for address, node in zip([*cuda, *rocm], near, strict=True):
            put(f"sys/bus/pci/devices/{address.lower()}/numa_node", str(node))
        return tmp_path

    return make


def env(rank: int, ranks: int, wish: str = "on", **more: str) -> dict[str, str]:
    return {WISH: wish, "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks), **more}


def test_ranks_on_cpu_share_the_cores(host: Host) -> None:
    """Whole cores, threads together, and neighbours in one NUMA node; what cannot be shared evenly nobody gets."""
    root = host(["0-1,4-5,8", "2-3,6-7"], cores=[0, 1, 2, 3, 0, 1, 2, 3, 9])
    shares = [choose("cpu", env(rank, 4), range(9), root) for rank in range(4)]
    assert [share.options for share in shares] == [
        ("--physcpubind=0,4", "--localalloc"),
        ("--physcpubind=1,5", "--localalloc"),
        ("--physcpubind=2,8", "--localalloc"),
        ("--physcpubind=3,6", "--localalloc"),
    ]
    assert shares[0].text == "CPUs 0,4"


def test_only_what_the_process_may_use_is_shared(host: Host) -> None:
    """A container's or a scheduler's set of CPUs is the whole of it."""
    root = host(["0-7"])
    assert choose("cpu", env(1, 2), [2, 3, 6, 7], root).text == "CPUs 6-7"
    crowded = choose("cpu", env(1, 2), [3], root)
    assert crowded == Binding((), "there are more ranks (2) than CPUs (1)")


@pytest.mark.parametrize(
    ("accelerator", "visible", "nodes"),
    [
        ("cuda", {}, ["1", "0"]),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "1,0"}, ["0", "1"]),
        ("rocm", {}, ["0", "1"]),
        ("rocm", {"HIP_VISIBLE_DEVICES": "1", "LOCAL_RANK": "0"}, ["1"]),
    ],
)
def test_a_rank_is_near_its_accelerator(
    host: Host, accelerator: str, visible: dict[str, str], nodes: list[str]
) -> None:
    """The NUMA node of the device that the rank uses, also where devices are hidden or reordered."""
    devices = ["0000:C1:00.0", "0000:1b:00.0"] if accelerator == "cuda" else ["0000:0c:00.0", "0002:a5:1f.7"]
    near = [0, 1]
    root = host(["0-3", "4-7"], **{accelerator: devices}, near=near)
    for rank, node in enumerate(nodes):
        found = choose(accelerator, {**env(rank, 2), **visible}, range(8), root)
        assert found.options == (f"--cpunodebind={node}", f"--membind={node}")


def test_what_the_kernel_does_not_know_binds_nothing(host: Host) -> None:
    """A virtual machine says -1; a rank without a device of its own has no place either."""
    root = host(["0-3"], cuda=["0000:01:00.0"], near=[-1])
    assert choose("cuda", env(0, 1), range(4), root) == Binding((), "the NUMA node of 0000:01:00.0 is not known")
    assert choose("cuda", env(1, 2), range(4), root) == Binding((), "the NUMA node of its accelerator is not known")


def test_auto_needs_several_nodes(host: Host) -> None:
    """On a host with one NUMA node `auto` leaves the ranks alone; `on` divides its cores."""
    root = host(["0-3"])
    assert choose("cpu", env(0, 2, "auto:cpu"), range(4), root) == Binding((), "this host has one NUMA node")
    assert choose("cpu", env(0, 2), range(4), root).text == "CPUs 0-1"


def numactl(folder: Path, body: str) -> str:
    """A PATH with a program of that name, for hosts that have none."""
    program = folder / "bin/numactl"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"{program.parent}:{os.defpath}"


def test_a_rank_starts_itself_anew_where_it_belongs(tmp_path: Path) -> None:
    """The rank keeps its process id, runs under numactl, and says in its log where it is bound."""
    path = numactl(tmp_path, f'echo "$@" >> {tmp_path}/calls\nwhile [ "${{1#--}}" != "$1" ]; do shift; done\nexec "$@"')
    ended = Ranks(folder=tmp_path).run("works", **{WISH: "on:cpu", "PATH": path})
    assert ended.code == 0, ended.stdout + ended.stderr
    cpus = sorted(os.sched_getaffinity(0))
    trial, start = (tmp_path / "calls").read_text().splitlines()
    assert trial.split()[1:] == ["--localalloc", "true"]
    assert start.split()[:2] == trial.split()[:2]
    assert "-m primus_core.rank" in start
    assert "numa: rank 0 is bound to CPUs " in ended.log("info")
    assert len(cpus) >= 1


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "numactl is not installed"),
        ("echo 'set_mempolicy: Operation not permitted' >&2; exit 1", "set_mempolicy: Operation not permitted"),
    ],
)
def test_a_host_that_cannot_bind_is_told(tmp_path: Path, body: str, why: str) -> None:
    """Without numactl, and where it is not allowed, the run goes on and a warning says why it is not bound."""
    path = numactl(tmp_path, body) if body else str(tmp_path)
    ended = Ranks(folder=tmp_path).run("works", **{WISH: "on:cpu", "PATH": path})
    assert ended.code == 0, ended.stdout + ended.stderr
    assert f"not bound to a part of the host: {'' if not body else 'numactl cannot do it here: '}{why}" in ended.stdout


def test_programs_that_a_rank_starts_are_not_it() -> None:
    """What the variable tells counts for the rank's own two processes."""
    own = {BOUND: f"{os.getpid()} bound CPUs 0"}
    assert outcome(own) == (True, "CPUs 0")
    program = "import os, json\nfrom primus_core.rank.numa import outcome\nprint(json.dumps(outcome(os.environ)))"
    command = f'import subprocess, sys\nsys.exit(subprocess.call([sys.executable, "-c", {program!r}]))'
    below = subprocess.run([sys.executable, "-c", command], env={**os.environ, **own}, capture_output=True, check=True)
    assert json.loads(below.stdout) is None
