"""What a process may use here: resource limits, shared memory, and what a container or a scheduler allows."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome
from primus_preflight.probes.found import warning
from primus_preflight.probes.host.cgroups import cgroup_facts
from primus_preflight.resources import Needs, shortages

_NAMES = {
    "open_files": resource.RLIMIT_NOFILE,
    "locked_memory_bytes": resource.RLIMIT_MEMLOCK,
    "processes": resource.RLIMIT_NPROC,
    "stack_bytes": resource.RLIMIT_STACK,
    "core_bytes": resource.RLIMIT_CORE,
}


def look(about: Looked) -> Outcome:
    """Limits of this process, which the ranks will have too."""
    facts = {**own_limits(), **shared_memory(about.root), **cgroup_facts(about.root)}
    needs = Needs.of(about.plan, about.root)
    return Outcome(facts=facts, findings=(*shortages(facts, needs), *confined(facts)))


def own_limits() -> dict[str, Value]:
    """The soft limits of this process; None: unlimited."""
    return {name: _limit(resource.getrlimit(which)[0]) for name, which in _NAMES.items()}


def shared_memory(root: Path) -> dict[str, Value]:
    """Bytes of ``/dev/shm`` and those that are free; None where there is none."""
    try:
        found = os.statvfs(root / "dev/shm")
    except OSError:
        return {"shm_bytes": None, "shm_free_bytes": None}
    return {"shm_bytes": found.f_blocks * found.f_frsize, "shm_free_bytes": found.f_bavail * found.f_frsize}


def confined(facts: Mapping[str, Value]) -> Iterator[Finding]:
    """Whether a container leaves too little."""
    tasks = facts.get("tasks_limit")
    if isinstance(tasks, int) and tasks < 512:
        yield warning(
            "host.tasks",
            f"the container or job may have {tasks} threads and processes in all",
            "torch alone starts more: each rank one for every CPU and some for each communicator",
            "Start the container with `--pids-limit=-1`, or raise TasksMax of the service.",
        )


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value
