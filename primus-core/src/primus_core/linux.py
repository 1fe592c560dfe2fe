"""What Linux and the C library offer and Python lacks. Standard library only: the rank's parent uses it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import NamedTuple

_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36
_LINE_BUFFERED = 1

_libc = ctypes.CDLL(None, use_errno=True)


class Process(NamedTuple):
    """One line of the table of processes."""

    pid: int
    parent: int
    group: int
    ended: bool
    """It waits for its parent to take its exit status."""


def processes() -> Iterator[Process]:
    """Every process that this one can see; those that vanish meanwhile are left out."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                # the name before the last bracket may itself hold spaces and brackets
                state, parent, group = file.read().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):  # it is gone
            continue
        yield Process(int(pid), int(parent), int(group), state in "ZX")


def die_with_parent(signal: int) -> None:
    """Have this process sent a signal when its parent dies, however it dies."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal)


def catches(pid: int, signal: int) -> bool:
    """Whether a process has a handler for a signal; not for one that is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            masks = [line.split()[1] for line in file if line.startswith("SigCgt:")]
    except OSError:
        return False
    return bool(masks) and bool(int(masks[0], 16) >> (signal - 1) & 1)


def adopt_orphans(adopt: bool = True) -> None:
    """Become the parent of descendants whose own parent ends, or no longer so."""
    _prctl(_SET_CHILD_SUBREAPER, int(adopt))


def buffer_stdout_by_line() -> None:
    """Have C code's ``printf`` write whole lines although stdout is a pipe, so that a crash loses none."""
    _libc.setvbuf(ctypes.c_void_p.in_dll(_libc, "stdout"), None, _LINE_BUFFERED, 0)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")
