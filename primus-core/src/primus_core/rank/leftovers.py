"""Processes that a rank's child leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import NamedTuple

from primus_core import linux


class Process(NamedTuple):
    """A live process."""

    pid: int
    command: str


def find(group: int) -> list[Process]:
    """The live processes of the child's group, and those that became this process' children when theirs ended."""
    me = os.getpid()
    return [
        Process(one.pid, _command(one.pid))
        for one in linux.processes()
        if not one.ended and one.pid != me and (one.group == group or one.parent == me)
    ]


def kill(processes: list[Process]) -> None:
    for process in processes:
        with contextlib.suppress(OSError):
            os.kill(process.pid, signal.SIGKILL)


def reap() -> bool:
    """Take the exit status of everything that has ended; True while live descendants are left.

    Every orphan below this process becomes its child, so no child means no descendant.
    """
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True


def _command(pid: int) -> str:
    """Empty for one that ended while we looked."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().replace("\0", " ").strip()[:200]
    except OSError:
        return ""
