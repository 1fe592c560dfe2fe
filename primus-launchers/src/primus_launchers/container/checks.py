"""What a host has to have before a container can be made on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from primus_core.errors import DependencyError, PrimusError
from primus_core.outcome import Cause, Finding
from primus_launchers.container.command import volume
from primus_launchers.container.engine import not_installed, programs
from primus_launchers.container.request import Request
from primus_launchers.container.tables import needs_of, on_this_host


def findings(request: Request) -> tuple[Finding, ...]:
    """What a look at the submitting host finds; nothing is started for it."""
    installed = () if programs(request.engine, None) else (not_installed(request.engine),)
    return (
        *(_finding("container.engine", error) for error in installed),
        *(_finding("container.devices", error) for error in devices_missing(request)),
        *(_finding("container.volume", error) for error in volumes_missing(request)),
    )


def problems(request: Request) -> Iterator[PrimusError]:
    """What is wrong on this node: with the devices, with what is mounted."""
    yield from devices_missing(request)
    yield from volumes_missing(request)
    yield from _unseen(request)


def devices_missing(request: Request) -> Iterator[PrimusError]:
    wanted = (
        *needs_of(request.accelerator).devices,
        *(path.partition(":")[0] for path in on_this_host(request.devices)),
    )
    missing = [path for path in wanted if path.startswith("/") and not os.path.exists(path)]
    if missing:
        driver = request.accelerator == "rocm" and "/dev/kfd" in missing
        yield DependencyError(
            f"{os.uname().nodename} has no {' and no '.join(missing)}",
            why="the container was to have it" + ("; it is there when AMD's driver is loaded" if driver else ""),
            remedy="load the driver (`modprobe amdgpu`), or set `accelerator:` to what the host has"
            if driver
            else "check its name, or leave the --device out",
        )


def volumes_missing(request: Request) -> Iterator[PrimusError]:
    for word in request.volumes:
        try:
            volume(word)
        except PrimusError as error:
            yield error


def _unseen(request: Request) -> Iterator[PrimusError]:
    """What the run reads has to be there; a folder that it writes to is made, unless this node sees another disk."""
    if request.code and not os.path.exists(request.code):
        yield _not_here(request.code)
        return
    for mount in request.mounts:
        if mount.writable:
            with suppress(OSError):
                os.makedirs(mount.path, exist_ok=True)
        if not os.path.exists(mount.path):
            yield _not_here(mount.path)


def _not_here(path: str) -> DependencyError:
    return DependencyError(
        f"{os.uname().nodename} does not see {path}",
        why="the run needs it, and a container has the files of its host",
        remedy="keep it on a file system that is mounted at the same path on every node",
    )


def _finding(check: str, error: PrimusError) -> Finding:
    cause: Cause = "dependency" if isinstance(error, DependencyError) else "configuration"
    return Finding(
        check=check,
        severity="error",
        summary=error.what,
        evidence=error.why,
        remedy=error.remedy,
        cause=cause,
        where=error.where,
    )
