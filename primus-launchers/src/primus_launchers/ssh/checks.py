"""What a host looks at before anything is started on it."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from primus_core import discovery
from primus_core.errors import DependencyError, PrimusError, RunError

_SHOWN = 6
_LIBRARIES = ("torch", "megatron-core", "torchtitan")


def versions() -> dict[str, str]:
    """What has to be the same everywhere: Python, the Primus distributions and the training libraries."""
    libraries = {name: discovery.installed_version(name) or "not installed" for name in _LIBRARIES}
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, **discovery.distributions(discovery.scan()), **libraries}


def digest(plan: str) -> str | None:
    """A plan's content in short; None where there is no such file, or it cannot be read."""
    try:
        return hashlib.sha256(Path(plan).read_bytes()).hexdigest()
    except OSError:
        return None


def machine() -> str:
    """The same for two names of one host."""
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}/{socket.gethostname()}"


def problems(request: Mapping[str, Any]) -> Iterator[PrimusError]:
    """What keeps this host from starting its ranks."""
    name = request["host"]
    if request["digest"] is not None:
        yield from _plan(request["plan"], request["digest"], name)
    if request["workdir"] and not os.path.isdir(request["workdir"]):
        yield RunError(
            f"the folder that the run is started in is not on {name}",
            where=request["workdir"],
            remedy="start the run from a folder that every host sees",
        )
    yield from _versions(request["versions"], name)


def _plan(plan: str, expected: str, name: str) -> Iterator[PrimusError]:
    found = digest(plan)
    if found != expected:
        yield RunError(
            f"{name} does not see {'the run directory' if found is None else 'the same plan'}",
            where=plan,
            why="the plan, the logs and the checkpoints are files that every host has to share; nothing is copied",
            remedy="put `workspace:` on a file system that is mounted at the same path on every host",
        )
    elif not os.access(os.path.dirname(plan), os.W_OK):
        yield RunError(
            f"{name} may not write the run directory",
            where=os.path.dirname(plan),
            remedy="give the user who logs in there the right to write, or log in as another one (user@host)",
        )


def _versions(expected: Mapping[str, str], name: str) -> Iterator[PrimusError]:
    found = versions()
    other = [key for key in sorted({*expected, *found}) if expected.get(key) != found.get(key)]
    if other:
        missing = "not installed"
        lines = [f"{key}: {found.get(key, missing)} there, {expected.get(key, missing)} here" for key in other[:_SHOWN]]
        yield DependencyError(
            f"{name} has other versions than this host",
            why="\n".join([*lines, *([f"and {len(other) - _SHOWN} more"] if len(other) > _SHOWN else [])]),
            remedy="install the same versions on every host, or name an interpreter that has them: ssh.python",
        )
