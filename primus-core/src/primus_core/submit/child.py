"""One process that does a piece of work for a command, and tells line by line how far it is."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import IO

from attrs import frozen

from primus_core.plan import Process
from primus_core.submit.processes import signal_group, start


@frozen(kw_only=True)
class ChildEnded:
    """How it ended."""

    status: int
    """As `subprocess` reports it: negative for a signal."""
    errors: str
    """What it wrote to standard error."""


def run_child(process: Process, env: Mapping[str, str], on_line: Callable[[str], None]) -> ChildEnded:
    """Run a process to its end, which is also ours: an exception here, or our death, ends it.

    Args:
        on_line: called with each line of its standard output.

    Raises:
        DependencyError: the program cannot be started.
    """
    child = start(process, env)
    written: list[bytes] = []
    listener = threading.Thread(target=_listen, args=(child.stderr, written), daemon=True)
    listener.start()
    try:
        for line in child.stdout or ():
            on_line(line.decode("utf-8", "replace").rstrip("\n"))
        status = child.wait()
    finally:
        _end(child)
    listener.join()
    return ChildEnded(status=status, errors=b"".join(written).decode("utf-8", "replace"))


def _listen(stream: IO[bytes] | None, written: list[bytes]) -> None:
    for line in stream or ():
        written.append(line)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        signal_group(child, signal.SIGKILL)
        child.wait()
