"""What a node looks at before ranks are started on it, and the submitting host before a job is made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from primus_core.errors import PrimusError, RunError
from primus_core.outcome import Finding
from primus_launchers.ssh.checks import digest

_SHARED = "put `workspace:` on a file system that is mounted at the same path on every node"


def problems(request: Mapping[str, Any], host: str) -> Iterator[PrimusError]:
    """What keeps this node from starting its ranks."""
    plan, expected = request["plan"], request["digest"]
    found = digest(plan) if plan else None
    if expected is not None and found != expected:
        yield RunError(
            f"{host} does not see {'the run directory' if found is None else 'the same plan'}",
            where=plan,
            why="the plan, the logs and the checkpoints are files that every node has to share; nothing is copied",
            remedy=_SHARED,
        )
    elif expected is not None and not os.access(os.path.dirname(plan), os.W_OK):
        yield RunError(f"{host} may not write the run directory", where=os.path.dirname(plan), remedy=_SHARED)
    if request["workdir"] and not os.path.isdir(request["workdir"]):
        yield RunError(
            f"the folder that the run is started in is not on {host}",
            where=request["workdir"],
            remedy="start the run from a folder that every node sees",
        )


def programs(names: Mapping[str, str], path: str | None = None) -> Iterator[Finding]:
    """The programs of Slurm that a submission needs and this host lacks.

    Args:
        names: by program, what it is needed for.
        path: where to look; default: PATH.
    """
    for name, purpose in names.items():
        if shutil.which(name, path=path) is None:
            yield Finding(
                check="slurm.programs",
                severity="error",
                summary=f"{name} is not installed on this host",
                evidence=f"it is what {purpose}",
                remedy="run this on a login node of the cluster, or load Slurm's module there",
                cause="dependency",
            )
