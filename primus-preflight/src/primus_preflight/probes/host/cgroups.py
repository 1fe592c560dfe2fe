"""What the control groups of this process allow, of version 2 or 1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from primus_core.experiment import Value
from primus_preflight.probes.reading import number, text

_NO_LIMIT = 1 << 60
"""Version 1 writes the largest number of pages for no limit."""


def cgroup_facts(root: Path) -> dict[str, Value]:
    """The tightest limits of this process' groups; None: there is none, or it cannot be seen."""
    groups = memberships(text(root / "proc/self/cgroup"))
    two = [root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"]
    unified = [folder for base in two for folder in _folders(base, groups.get("", "/"))]
    memory = _folders(root / "sys/fs/cgroup/memory", groups.get("memory", "/"))
    pids = _folders(root / "sys/fs/cgroup/pids", groups.get("pids", "/"))
    cpu = _folders(root / "sys/fs/cgroup/cpu", groups.get("cpu", "/"))
    return {
        "cgroup_version": 2 if (root / "sys/fs/cgroup/cgroup.controllers").exists() else 1 if groups else None,
        "memory_limit_bytes": _least([*_numbers(unified, "memory.max"), *_numbers(memory, "memory.limit_in_bytes")]),
        "tasks_limit": _least([*_numbers(unified, "pids.max"), *_numbers(pids, "pids.max")]),
        "cpu_limit": min([*_shares(unified), *_quotas(cpu)], default=None),
        "container": _container(root),
    }


def memberships(cgroup: str) -> dict[str, str]:
    """Path by controller, from ``/proc/self/cgroup``; that of version 2 under an empty name."""
    found: dict[str, str] = {}
    for line in cgroup.splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _folders(base: Path, path: str) -> list[Path]:
    """The group and those above it; a container sees its own as the root, whatever its name is outside."""
    folder = base / path.strip("/")
    return [folder, *(above for above in folder.parents if above.is_relative_to(base))]


def _numbers(folders: list[Path], name: str) -> Iterator[int]:
    for folder in folders:
        value = number(folder / name)
        if value is not None and 0 <= value < _NO_LIMIT:
            yield value


def _shares(folders: list[Path]) -> Iterator[float]:
    """CPUs of ``cpu.max``: ``400000 100000`` is 4; ``max 100000`` no limit."""
    for folder in folders:
        quota, _, period = text(folder / "cpu.max").partition(" ")
        if quota.isdecimal() and period.isdecimal():
            yield int(quota) / int(period)


def _quotas(folders: list[Path]) -> Iterator[float]:
    """The same of version 1, which writes -1 for no limit."""
    for folder in folders:
        quota, period = number(folder / "cpu.cfs_quota_us"), number(folder / "cpu.cfs_period_us")
        if quota and period and quota > 0:
            yield quota / period


def _least(values: list[int]) -> int | None:
    return min(values, default=None)


def _container(root: Path) -> str | None:
    """What kind of container this is, where that can be told."""
    kinds = {".dockerenv": "docker", "run/.containerenv": "podman", "singularity": "apptainer"}
    return next((kind for mark, kind in kinds.items() if (root / mark).exists()), None)
