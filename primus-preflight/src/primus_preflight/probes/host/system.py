"""Kernel, processors, memory and NUMA nodes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from primus_core.experiment import Value
from primus_core.hardware import host_memory
from primus_core.outcome import Finding
from primus_core.planning.accelerators import find_accelerators
from primus_core.quantities import memory_size
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome
from primus_preflight.probes.found import warning
from primus_preflight.probes.reading import number, table, text

LEAST_AVAILABLE = 0.1
"""Share of the memory below which somebody else must be using it."""


def look(about: Looked) -> Outcome:
    """What the machine is."""
    facts = facts_of(about.root)
    return Outcome(facts=facts, findings=tuple(judged(facts, find_accelerators(about.root).count)))


def facts_of(root: Path) -> dict[str, Value]:
    """What the files below ``/proc`` and ``/sys`` tell; sizes in bytes."""
    memory = host_memory(root)
    return {
        "kernel": text(root / "proc/sys/kernel/osrelease"),
        "system": _system(root),
        "architecture": os.uname().machine,
        **processors(text(root / "proc/cpuinfo")),
        "memory_bytes": memory.total,
        "memory_available_bytes": memory.available,
        "numa_nodes": numa_nodes(root),
        "numa_balancing": number(root / "proc/sys/kernel/numa_balancing"),
        "transparent_huge_pages": _chosen(text(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        "governor": text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
    }


def processors(cpuinfo: str) -> dict[str, Value]:
    """Model and number of sockets, cores and hardware threads; ARM's kernel tells threads alone."""
    models = re.findall(r"(?m)^model name\s*:\s*(.+)$", cpuinfo)
    packages = re.findall(r"(?m)^physical id\s*:\s*(\d+)$", cpuinfo)
    cores = re.findall(r"(?ms)^physical id\s*:\s*(\d+)$.*?^core id\s*:\s*(\d+)$", cpuinfo)
    return {
        "cpu_model": models[0].strip() if models else None,
        "sockets": len(set(packages)) or None,
        "cores": len(set(cores)) or None,
        "cpus": len(re.findall(r"(?m)^processor\s*:", cpuinfo)),
    }


def numa_nodes(root: Path) -> dict[str, Value]:
    """CPUs of each NUMA node as the kernel lists them: ``{"0": "0-63"}``; empty where it does not say."""
    folders = (root / "sys/devices/system/node").glob("node[0-9]*")
    found = {folder.name.removeprefix("node"): text(folder / "cpulist") for folder in folders}
    return {name: found[name] for name in sorted(found, key=int)}


def judged(facts: Mapping[str, Value], accelerators: int) -> Iterator[Finding]:
    """What is doubtful.

    Args:
        accelerators: how many the host has.
    """
    total, available = facts["memory_bytes"], facts["memory_available_bytes"]
    if isinstance(total, int) and isinstance(available, int) and available < LEAST_AVAILABLE * total:
        yield warning(
            "host.memory",
            f"only {memory_size(available)} of this host's memory are available",
            f"of {memory_size(total)}, before anything of the run is started",
            "Look what uses it: `ps aux --sort=-rss | head`, and files in /dev/shm.",
        )
    nodes = facts["numa_nodes"]
    if accelerators and facts["numa_balancing"] == 1 and isinstance(nodes, dict) and len(nodes) > 1:
        yield warning(
            "host.numa-balancing",
            "the kernel moves memory between NUMA nodes by itself",
            "kernel.numa_balancing is 1: processes that feed accelerators are stopped at odd times for it",
            "As root: `sysctl kernel.numa_balancing=0`.",
        )


def _system(root: Path) -> str | None:
    name = table(root / "etc/os-release", "=").get("PRETTY_NAME", "")
    return name.strip('"') or None


def _chosen(words: str) -> str | None:
    """``madvise`` of ``always [madvise] never``."""
    found = re.search(r"\[(\w+)\]", words)
    return found[1] if found else None
