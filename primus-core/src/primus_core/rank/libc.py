"""The calls of Linux and of the C library that Python lacks."""

from __future__ import annotations

import ctypes
import os

_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36
_LINE_BUFFERED = 1

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(signal: int) -> None:
    """Have this process sent a signal when its parent dies, however it dies."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def buffer_stdout_by_line() -> None:
    """Have C code's ``printf`` write whole lines although stdout is a pipe, so that a crash loses none."""
    _libc.setvbuf(ctypes.c_void_p.in_dll(_libc, "stdout"), None, _LINE_BUFFERED, 0)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")
