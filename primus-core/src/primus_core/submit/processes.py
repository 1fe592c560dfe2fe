"""Processes that end with us: started in groups of their own, found wherever they are when they must go."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from primus_core import linux
from primus_core.errors import DependencyError
from primus_core.plan import Process

Child: TypeAlias = "subprocess.Popen[bytes]"
"""A process that we started."""


def start(
    process: Process, env: Mapping[str, str], *, talks: bool = False, shares_output: bool = False
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own; the kernel sends it SIGTERM when we die.

    Its own session keeps a terminal's Ctrl-C away from it: it gets each signal once, from us.

    Args:
        talks: its standard input stays open, for the caller to write to and to close.
        shares_output: it writes to our own standard output and error, not to pipes that the caller reads.

    Raises:
        DependencyError: the program is not there or cannot be executed.
    """
    try:
        child = subprocess.Popen(
            process.argv,
            env={**env, **process.env},
            stdin=subprocess.PIPE if process.stdin or talks else subprocess.DEVNULL,
            stdout=None if shares_output else subprocess.PIPE,
            stderr=None if shares_output else subprocess.PIPE,
            start_new_session=True,
            preexec_fn=partial(_die_with, os.getpid()),
        )
    except OSError as error:
        raise DependencyError(
            f"cannot start {process.argv[0]}",
            why=str(error),
            remedy="Check that the program is installed on this host and may be executed.",
        ) from None
    if not talks:
        _feed(child, process.stdin)
    return child


def _die_with(parent: int) -> None:
    """Runs between fork and exec."""
    linux.die_with_parent(signal.SIGTERM)
    for number in (signal.SIGUSR1, signal.SIGUSR2):  # a launcher that does not know them must not die of them
        signal.signal(number, signal.SIG_IGN)
    if os.getppid() != parent:  # it died before the line above
        os._exit(125)


def _feed(child: subprocess.Popen[bytes], text: str) -> None:
    if child.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError), child.stdin:
        child.stdin.write(text.encode())


def signal_group(child: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process that we started and to its group."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)


def descendants(root: int, *, without: Iterable[int] = ()) -> list[int]:
    """Living processes below a process, except those in ``without`` and what is below them."""
    by_parent: dict[int, list[int]] = {}
    for one in linux.processes():
        if not one.ended:
            by_parent.setdefault(one.parent, []).append(one.pid)
    left_out, found, todo = set(without), [], [root]
    while todo:
        below = [pid for pid in by_parent.get(todo.pop(), ()) if pid not in left_out]
        found += below
        todo += below
    return found


def kill(pids: Sequence[int]) -> None:
    """End processes by force. All are stopped before any is killed: none acts on the death of another."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def children(parent: int) -> list[int]:
    """The processes whose exit status a process has to take, those that have ended included."""
    return [one.pid for one in linux.processes() if one.parent == parent]


def reap(pids: Iterable[int]) -> None:
    """Take the exit status of adopted processes that have ended; `subprocess` does it for its own."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
