"""Ending child processes without waiting for ever: one that sleeps in a driver cannot be killed before it wakes."""

from __future__ import annotations

import contextlib
import os
import signal
import time

KILL_SECONDS = 2.0
"""A process that is there so long after SIGKILL is left alone; it ends when what it waits for comes."""
_FIRST_NAP, _LONGEST_NAP = 0.0005, 0.02


def ended(pid: int, seconds: float) -> int | None:
    """The status of a child that ends within a time, as `os.waitpid` gives it; None where it does not.

    Raises:
        ChildProcessError: its status was taken before.
    """
    limit, nap = time.monotonic() + seconds, _FIRST_NAP
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        if time.monotonic() >= limit:
            return None
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)


def kill_group(pid: int) -> bool:
    """Kill a child that leads a process group, and the rest of the group; returns whether the child has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        return ended(pid, KILL_SECONDS) is not None
    return True


def left_behind(pid: int) -> str:
    """What is told of a process that `kill_group` could not end."""
    return f"its process {pid} cannot be killed (it waits in a driver or file system) and was left behind"
