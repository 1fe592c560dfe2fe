"""Processes that a rank's child leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import NamedTuple


class Process(NamedTuple):
    """A live process."""

    pid: int
    command: str


def find(group: int) -> list[Process]:
    """The live processes of the child's group, and those that became this process' children when theirs ended."""
    me = os.getpid()
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError, ValueError):  # it ended while we looked
            state, parent, its_group = _stat(pid)
            if state not in "ZX" and pid != me and (its_group == group or parent == me):
                found.append(Process(pid, _command(pid)))
    return found


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


def _stat(pid: int) -> tuple[str, int, int]:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        text = file.read()
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may hold spaces and brackets
    return fields[0], int(fields[1]), int(fields[2])


def _command(pid: int) -> str:
    with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
        return file.read().replace("\0", " ").strip()[:200]
