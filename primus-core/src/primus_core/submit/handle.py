"""The scheduler's name for a run, and what is asked of the scheduler by it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

from attrs import frozen

from primus_core.codec import from_json, to_json
from primus_core.errors import ConfigError, DependencyError
from primus_core.files import write_atomic
from primus_core.plan import RunPlan, Submission
from primus_core.rundir import RunDir

NAME = "handle.json"
SchedulerState = Literal["pending", "running", "completed", "failed", "cancelled", "unknown"]
_STATES = ("pending", "running", "completed", "failed", "cancelled", "unknown")
_SECONDS = 60


@frozen(kw_only=True)
class Handle:
    """What was written when a run was handed to a scheduler."""

    handle: str
    """The scheduler's name for the run: the number of a job."""
    launcher: str
    submitted: float
    """Seconds since the epoch."""
    status_argv: tuple[str, ...] = ()
    cancel_argv: tuple[str, ...] = ()
    requeue_argv: tuple[str, ...] = ()
    cancelled: float | None = None
    """When `primus cancel` ended it, in seconds since the epoch."""

    @classmethod
    def of(cls, handle: str, submission: Submission, plan: RunPlan, now: float) -> Handle:
        """The commands of a submission, for this run."""
        return cls(
            handle=handle,
            launcher=plan.launcher,
            submitted=now,
            status_argv=_filled(submission.status_argv, handle),
            cancel_argv=_filled(submission.cancel_argv, handle),
            requeue_argv=_filled(submission.requeue_argv, handle),
        )


@frozen(kw_only=True)
class SchedulerSays:
    """How a run stands for its scheduler."""

    state: SchedulerState
    text: str = ""
    """The scheduler's own words."""
    restarts: int = 0
    """How often it started the run again."""


def write_handle(rundir: RunDir, handle: Handle) -> None:
    """Keep it with the run.

    Raises:
        RunError: the run directory cannot be written.
    """
    try:
        write_atomic(rundir.submission / NAME, to_json(handle))
    except OSError as error:
        raise rundir.unwritable(error) from None


def read_handle(rundir: RunDir) -> Handle | None:
    """None: the run was handed to no scheduler.

    Raises:
        ConfigError: the file is damaged.
    """
    path = rundir.submission / NAME
    try:
        return from_json(Handle, path.read_text(encoding="utf-8"), source=str(path))
    except FileNotFoundError:
        return None


def runs_of(handle: str, folders: Sequence[Path]) -> list[Path]:
    """The run directories below these that a scheduler knows by this name, the newest last."""
    found = [path for folder in folders for path in folder.glob(f"*/*/*/runs/*/submission/{NAME}")]
    mine = [path for path in found if _name_in(path) == handle]
    return [path.parent.parent for path in sorted(mine, key=lambda path: path.stat().st_mtime)]


def ask(handle: Handle) -> SchedulerSays:
    """How the run stands; ``unknown``, with the reason, where the scheduler does not answer."""
    if not handle.status_argv:
        return SchedulerSays(state="unknown", text=f"the launcher {handle.launcher!r} cannot be asked")
    try:
        done = _run(handle.status_argv)
    except DependencyError as error:
        return SchedulerSays(state="unknown", text=error.what)
    try:
        told = json.loads(done.stdout)
        state, text, restarts = told["state"], str(told.get("text", "")), int(told.get("restarts", 0))
    except (ValueError, KeyError, TypeError, AttributeError):
        return SchedulerSays(state="unknown", text=_last_line(done) or "the scheduler was asked and said nothing")
    known = cast(SchedulerState, state) if state in _STATES else "unknown"
    return SchedulerSays(state=known, text=text, restarts=restarts)


def cancel(handle: Handle) -> None:
    """End the run.

    Raises:
        ConfigError: its launcher has no command for that.
        DependencyError: the scheduler refuses, or its command is not there.
    """
    if not handle.cancel_argv:
        raise ConfigError(f"a run of the launcher {handle.launcher!r} cannot be cancelled")
    done = _run(handle.cancel_argv)
    if done.returncode != 0:
        raise DependencyError(
            f"job {handle.handle} was not cancelled",
            why=_last_line(done) or f"{handle.cancel_argv[0]} ended with {done.returncode}",
            remedy="`primus status` tells whether it still goes on",
        )


def requeue(handle: Handle) -> str:
    """Have the scheduler start the run again; returns why it does not, or nothing."""
    if not handle.requeue_argv:
        return f"the launcher {handle.launcher!r} cannot do that"
    try:
        done = _run(handle.requeue_argv)
    except DependencyError as error:
        return error.what
    return "" if done.returncode == 0 else _last_line(done) or f"{handle.requeue_argv[0]} ended with {done.returncode}"


def _filled(argv: Sequence[str], handle: str) -> tuple[str, ...]:
    return tuple(word.replace("{handle}", handle) for word in argv)


def _name_in(path: Path) -> str:
    try:
        return str(json.loads(path.read_text(encoding="utf-8")).get("handle"))
    except (OSError, ValueError, AttributeError):
        return ""


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a short command of a scheduler in a session of its own: signals of a job or a terminal are not for it."""
    try:
        return subprocess.run(
            argv,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise DependencyError(f"{os.path.basename(argv[0])} did not answer in {_SECONDS} s") from None
    except OSError as error:
        raise DependencyError(
            f"cannot start {argv[0]}",
            why=error.strerror or str(error),
            remedy="ask on a host where the scheduler's commands are installed",
        ) from None


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else ""
