"""Slurm binds a task to CPUs, and the one task of a node starts all its ranks."""

from __future__ import annotations

import os
from collections.abc import Mapping

_TRACES = ("SLURM_CPU_BIND", "SBATCH_CPU_BIND")
"""Variables in which Slurm leaves the binding for programs that start further ones."""


def without_traces(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if not name.startswith(_TRACES)}


def widen(ranks: int, env: Mapping[str, str]) -> str:
    """Where a task was bound to fewer CPUs than it has ranks, let it use all that the job may use.

    Where Slurm keeps jobs apart by cgroups, these are the CPUs of the job, else those of the node.

    Returns:
        What to tell the user, on the first node alone; empty where there is nothing to say.
    """
    before = len(os.sched_getaffinity(0))
    if before >= ranks:
        return ""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    after = len(os.sched_getaffinity(0))
    if env.get("SLURM_NODEID") != "0":
        return ""
    cpus = f"{before} CPU{'s' * (before != 1)}"
    if after < ranks:
        return f"{ranks} ranks have {cpus}; --cpus-per-task or --exclusive asks for more"
    return f"Slurm bound {ranks} ranks to {cpus}; they may use {after} now (--cpus-per-task asks for as many)"
