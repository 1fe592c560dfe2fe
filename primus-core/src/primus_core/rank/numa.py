"""Binding a rank to the part of its host where its accelerator is. Standard library only.

A rank that shall be bound replaces itself by ``numactl OPTIONS python -m primus_core.rank PLAN``: its process id stays,
and everything that it starts is bound too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import NamedTuple

from primus_core.kfd import kfd_accelerators, pci_address

WISH = "PRIMUS_NUMA"
"""``on:cpu``: the accelerator of the plan comes second; ``auto:cuda``: only where the host has several NUMA nodes."""
BOUND = "PRIMUS_NUMA_BOUND"
"""Set by a rank for itself: its process id and what came of the wish."""
_TRIAL_SECONDS = 10
_VISIBLE = {
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}


class Binding(NamedTuple):
    """What numactl is to do."""

    options: tuple[str, ...]
    """Of numactl; none: the rank stays unbound."""
    text: str
    """What is done, or why nothing is."""


class Outcome(NamedTuple):
    """What came of the wish."""

    bound: bool
    text: str


def bind(env: MutableMapping[str, str]) -> None:
    """Do what PRIMUS_NUMA asks for: either this call does not return, or it leaves the reason in the environment."""
    wish, _, accelerator = env.get(WISH, "").partition(":")
    if wish not in ("on", "auto") or accelerator not in ("cpu", *_VISIBLE) or outcome(env):
        return
    binding = choose(accelerator, env, sorted(os.sched_getaffinity(0)))
    program = shutil.which("numactl", path=env.get("PATH"))
    if binding.options and program is None:
        binding = Binding((), "numactl is not installed (package `numactl`)")
    if program and binding.options and (refusal := _refusal([program, *binding.options])):
        binding = Binding((), f"numactl cannot do it here: {refusal}")
    env[BOUND] = f"{os.getpid()} {'bound' if binding.options else 'free'} {binding.text}"
    if program and binding.options:
        sys.stdout.flush()
        os.execve(program, [program, *binding.options, sys.executable, *sys.orig_argv[1:]], dict(env))  # noqa: S606  # words of ours, and no shell


def outcome(env: Mapping[str, str]) -> Outcome | None:
    """What came of the wish in this process; None where there was none. Programs that it starts have their own."""
    pid, _, said = env.get(BOUND, "").partition(" ")
    state, _, text = said.partition(" ")
    return Outcome(state == "bound", text) if pid in (str(os.getpid()), str(os.getppid())) else None


def choose(accelerator: str, env: Mapping[str, str], cpus: Sequence[int], root: Path = Path("/")) -> Binding:
    """Where a rank belongs.

    Args:
        accelerator: ``cpu``, ``cuda`` or ``rocm``.
        env: the rank's, with LOCAL_RANK and LOCAL_WORLD_SIZE.
        cpus: those that this process may use.
        root: the file system to look at; another one than ``/`` only in tests.
    """
    nodes = _nodes(root)
    if env.get(WISH, "").startswith("auto") and len(set(nodes.values())) < 2:
        return Binding((), "this host has one NUMA node")
    if accelerator == "cpu":
        return _share(env, _by_place(root, nodes, cpus))
    address = _address(accelerator, env, root)
    node = _read(root / "sys/bus/pci/devices" / address / "numa_node") if address else ""
    if not node.isdecimal():  # the kernel says -1 where it does not know
        return Binding((), f"the NUMA node of {address or 'its accelerator'} is not known")
    return Binding((f"--cpunodebind={node}", f"--membind={node}"), f"NUMA node {node} of {address}")


def _refusal(command: Sequence[str]) -> str:
    """Why a trial fails, such as in a container that may not bind memory; empty where it works."""
    try:
        done = subprocess.run(
            [*command, "true"], capture_output=True, text=True, timeout=_TRIAL_SECONDS, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else lines[0] if lines else f"exit code {done.returncode}"


def _share(env: Mapping[str, str], cpus: Sequence[int]) -> Binding:
    """The rank's part of the CPUs, of the same size for all ranks of the host; what is left over nobody is bound to."""
    rank, ranks = int(env.get("LOCAL_RANK", 0)), int(env.get("LOCAL_WORLD_SIZE", 1))
    size = len(cpus) // ranks
    if not size:
        return Binding((), f"there are more ranks ({ranks}) than CPUs ({len(cpus)})")
    mine = _ranges(cpus[rank * size : (rank + 1) * size])
    return Binding((f"--physcpubind={mine}", "--localalloc"), f"CPUs {mine}")


def _ranges(cpus: Sequence[int]) -> str:
    """``0-3,8``."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][-1] == cpu - 1:
            parts[-1][1:] = [cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)


def _by_place(root: Path, nodes: Mapping[int, int], cpus: Sequence[int]) -> list[int]:
    """The CPUs in an order in which the threads of a core, and the cores of a NUMA node, are neighbours."""

    def place(cpu: int) -> tuple[int, int, int, int]:
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        package, core = (_read(topology / name) for name in ("physical_package_id", "core_id"))
        return nodes.get(cpu, 0), _number(package), _number(core), cpu

    return sorted(cpus, key=place)


def _nodes(root: Path) -> dict[int, int]:
    """The NUMA node of each CPU."""
    found: dict[int, int] = {}
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        for cpu in _listed(_read(folder / "cpulist")):
            found[cpu] = int(folder.name.removeprefix("node"))
    return found


def _listed(text: str) -> Iterator[int]:
    """The numbers of ``0-3,8``."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _address(accelerator: str, env: Mapping[str, str], root: Path) -> str:
    """PCI address of the rank's accelerator, as sysfs writes it; empty where it cannot be told."""
    devices = _cuda_devices(root) if accelerator == "cuda" else _rocm_devices(root)
    visible = next((env[name] for name in _VISIBLE[accelerator] if env.get(name)), "")
    order = visible.split(",") if visible else [str(number) for number in range(len(devices))]
    rank = int(env.get("LOCAL_RANK", 0))
    chosen = order[rank].strip() if rank < len(order) else ""
    return devices[int(chosen)] if chosen.isdecimal() and int(chosen) < len(devices) else ""


def _cuda_devices(root: Path) -> list[str]:
    return sorted(folder.name.lower() for folder in (root / "proc/driver/nvidia/gpus").glob("*:*"))


def _rocm_devices(root: Path) -> list[str]:
    return [pci_address(table) for table in kfd_accelerators(root)]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
