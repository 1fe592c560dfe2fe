"""The parent's own standard output, which never makes the rank wait."""

from __future__ import annotations

import contextlib
import os
import stat
import time

_LIMIT = 1 << 20
_ATOMIC = 4096
"""Bytes that a pipe takes whole or not at all (PIPE_BUF), so that the lines of several ranks stay apart."""


class Terminal:
    """Writes lines to a file descriptor; keeps a MiB for a slow reader and drops, and counts, what is beyond.

    The log files have every line: a stuck terminal must not stop training.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = _own_descriptor(descriptor)
        self._waiting = b""
        self._dropped = 0

    @property
    def waits(self) -> bool:
        """Some output is left for `flush`."""
        return bool(self._waiting)

    def put(self, line: bytes) -> None:
        """Write one line, given with its newline."""
        if len(self._waiting) > _LIMIT:
            self._dropped += 1
            return
        self._waiting += line
        self.flush()

    def flush(self) -> None:
        """Write what the reader takes now."""
        try:
            while self._waiting:
                self._waiting = self._waiting[os.write(self._descriptor, self._next()) :]
        except BlockingIOError:
            return
        except OSError:  # nobody reads any more
            self._waiting = b""
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self.put(b"primus: %d lines were not shown here; the log has them\n" % dropped)

    def _next(self) -> bytes:
        """As many whole lines as can be written at once, else a part of a long one."""
        if len(self._waiting) <= _ATOMIC:
            return self._waiting
        return self._waiting[: self._waiting.rfind(b"\n", 0, _ATOMIC) + 1 or _ATOMIC]

    def finish(self, seconds: float) -> None:
        """Give a slow reader some time for the rest."""
        deadline = time.monotonic() + seconds
        self.flush()
        while self.waits and time.monotonic() < deadline:
            time.sleep(0.02)
            self.flush()


def _own_descriptor(descriptor: int) -> int:
    """Open a pipe or terminal anew: O_NONBLOCK on the shared one would hit torchrun and the other ranks."""
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor):
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with contextlib.suppress(OSError):  # no /proc, or another user's terminal
            return os.open(f"/proc/self/fd/{descriptor}", flags)
    return descriptor
