"""Checks of the host that needs no accelerator: is there a place to write the run to?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from primus_core.contract import host
from primus_core.outcome import Finding, Where
from primus_core.plan import RunPlan
from primus_core.quantities import memory_size

CONTRACT = 1

ENOUGH_BYTES = 5 * 1024**3
"""Below this the check warns: logs fit, a checkpoint of a real model may not."""
LEAST_BYTES = 256 * 1024**2
"""Below this nothing is started."""


@host
def preflight_check(plan: RunPlan, where: Where) -> Sequence[Finding]:
    """Check the workspace from the submitting host; writes nothing."""
    if where is not Where.SUBMIT:
        return ()
    return tuple(check_workspace(Path(plan.experiment.workspace if plan.experiment else plan.run_dir)))


def check_workspace(workspace: Path) -> Iterator[Finding]:
    """Whether the folder, or the one it will be made in, is writable and has room."""
    folder = _nearest_existing(workspace)
    if not folder.is_dir():
        yield _unusable(workspace, f"{folder} is a file, not a folder")
    elif not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        yield _unusable(workspace, f"{folder} is not writable for the user id {os.geteuid()}")
    elif os.statvfs(folder).f_flag & os.ST_RDONLY:
        yield _unusable(workspace, f"the file system of {folder} is mounted read-only")
    else:
        yield from check_space(workspace, folder, shutil.disk_usage(folder).free)


def check_space(workspace: Path, folder: Path, free: int) -> Iterator[Finding]:
    """Judge the free bytes that this user may fill, on the file system of ``folder``."""
    if free >= ENOUGH_BYTES:
        return
    fatal = free < LEAST_BYTES
    yield Finding(
        check="host.disk-space",
        severity="error" if fatal else "warning",
        summary=f"the workspace has {memory_size(free)} left" + (", too little to start" if fatal else ""),
        evidence=f"workspace {workspace}, file system of {folder}; "
        f"warning below {memory_size(ENOUGH_BYTES)}, error below {memory_size(LEAST_BYTES)}",
        remedy="Make room, or set `workspace:` to a folder on another file system.",
        cause="runtime",
    )


def _nearest_existing(path: Path) -> Path:
    """The folder itself or the closest one above it, as far as this user can see."""
    return next(folder for folder in (path, *path.parents) if os.path.exists(folder) or not folder.name)


def _unusable(workspace: Path, evidence: str) -> Finding:
    return Finding(
        check="host.workspace",
        severity="error",
        summary=f"the workspace {workspace} cannot be written",
        evidence=evidence,
        remedy="Set `workspace:` to a folder that you may write to.",
        cause="runtime",
    )
