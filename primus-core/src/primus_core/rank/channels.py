"""The three pipes from a rank's child to its parent, and reading whole lines from them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import NamedTuple

_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ; Python's fcntl has the name from 3.10 on only on some builds
_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 20
LONGEST_LINE = 1 << 16
"""Bytes after which a line of a stream is cut: a library that never ends its line must not fill the memory."""
LONGEST_EVENT = 1 << 26


class Pipe(NamedTuple):
    """Both ends of one pipe; neither is inherited by programs that the rank starts."""

    read: int
    write: int


class Channels(NamedTuple):
    """What the child writes to."""

    stdout: Pipe
    stderr: Pipe
    events: Pipe

    @classmethod
    def open(cls) -> Channels:
        return cls(*(_open_pipe() for _ in range(3)))

    def close_writers(self) -> None:
        """In the parent, but for events: a helper may open that pipe when the child has ended, so it must not end."""
        for pipe in (self.stdout, self.stderr):
            os.close(pipe.write)

    def close_readers(self) -> None:
        for pipe in self:
            os.close(pipe.read)


class LineReader:
    """The parent's end of one pipe."""

    def __init__(self, descriptor: int, source: str, longest: int) -> None:
        self.descriptor = descriptor
        self.source = source
        self.ended = False
        self._longest = longest
        self._rest = b""
        os.set_blocking(descriptor, False)

    def read(self) -> list[bytes] | None:
        """The lines that one read completes; None when nothing waits or the pipe has ended."""
        try:
            data = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return None
        if not data:
            self.ended = True
            return None
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        while len(self._rest) > self._longest:
            lines.append(self._rest[: self._longest])
            self._rest = self._rest[self._longest :]
        return lines

    def partial(self) -> list[bytes]:
        """The last line where it was not ended; once."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


def _open_pipe() -> Pipe:
    pipe = Pipe(*os.pipe())
    with contextlib.suppress(OSError):  # more than an unprivileged user may have: the usual size will do
        fcntl.fcntl(pipe.write, _SET_PIPE_SIZE, _PIPE_BYTES)
    return pipe
