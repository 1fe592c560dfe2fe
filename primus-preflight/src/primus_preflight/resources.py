"""Whether a process finds enough here for a run: open files, shared memory, locked memory.

The checks before a run and the looks at a node share it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_core.plan import RunPlan
from primus_core.planning.accelerators import find_accelerators
from primus_core.quantities import memory_size
from primus_core.records import frozen
from primus_preflight.probes.found import warning

_FILES = 512
"""What a process of torch has open by itself: libraries, logs, data, devices."""
_SHM_OF_DEVICES = 1 << 30
"""NCCL and RCCL map buffers for each pair of neighbours there, and workers of data loaders pass samples on in it."""
_SHM_OF_CPUS = 32 << 20


_NAMES = {
    "open_files": resource.RLIMIT_NOFILE,
    "locked_memory_bytes": resource.RLIMIT_MEMLOCK,
    "processes": resource.RLIMIT_NPROC,
    "stack_bytes": resource.RLIMIT_STACK,
    "core_bytes": resource.RLIMIT_CORE,
}


@frozen(kw_only=True)
class Needs:
    """What of a run decides how much it takes."""

    ranks: int = 1
    """Of the whole run."""
    devices: bool = False
    """It computes on accelerators."""
    rdma: bool = False
    """The host has devices that read and write memory by themselves."""

    @classmethod
    def of(cls, plan: RunPlan, root: Path) -> Needs:
        """Of a plan, on the host that this process runs on."""
        count = find_accelerators(root).count
        computes = plan.target.accelerator != "cpu" or (plan.task.kind == "preflight" and count > 0)
        ranks = plan.target.nodes * max(1, count) if plan.task.kind == "preflight" else plan.target.world_size
        devices = root / "sys/class/infiniband"
        return cls(ranks=ranks, devices=computes, rdma=devices.is_dir() and any(devices.iterdir()))

    @property
    def files(self) -> int:
        """Open files of rank 0, to which every other rank connects, once by torch and once by NCCL."""
        return _FILES + 2 * self.ranks

    @property
    def shared_memory(self) -> int:
        return _SHM_OF_DEVICES if self.devices else _SHM_OF_CPUS


def shortages(facts: Mapping[str, Value], needs: Needs) -> Iterator[Finding]:
    """What is too little.

    Args:
        facts: ``open_files``, ``locked_memory_bytes``, ``shm_bytes`` and ``shm_free_bytes``.
    """
    files, locked, free = facts.get("open_files"), facts.get("locked_memory_bytes"), facts.get("shm_free_bytes")
    if isinstance(files, int) and files < needs.files:
        yield warning(
            "host.open-files",
            f"a process may have {files} files open, which is few",
            f"the first of {needs.ranks} ranks needs about {needs.files}, connections included",
            "`ulimit -n 65536` in the shell that starts the run; in a container `--ulimit nofile=65536`.",
        )
    if isinstance(free, int) and free < needs.shared_memory:
        total = facts.get("shm_bytes")
        yield warning(
            "host.shared-memory",
            f"only {memory_size(free)} are left in /dev/shm",
            f"of {memory_size(total if isinstance(total, int) else free)}; ranks of one host exchange data there and "
            f"end with a bus error when it is full; {memory_size(needs.shared_memory)} are enough to begin with",
            "Remove what is left there; start a container with `--ipc=host` or `--shm-size=16g`.",
        )
    if needs.rdma and isinstance(locked, int):
        yield warning(
            "host.locked-memory",
            f"a process may lock {memory_size(locked)} of memory",
            "RDMA devices work in locked memory: NCCL and RCCL fail to register buffers beyond the limit",
            "`ulimit -l unlimited`; in a container `--ulimit memlock=-1`; in Slurm PropagateResourceLimitsExcept.",
        )


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


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value
