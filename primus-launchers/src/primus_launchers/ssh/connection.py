"""One host as the submitting one sees it: the ssh that leads there, and what has come from it."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from primus_core.plan import Process
from primus_core.planning.hosts import Host
from primus_core.submit.lines import Lines
from primus_core.submit.processes import Child, start
from primus_launchers.ssh.wire import line

REMOTE = "primus_launchers.ssh.remote"
_KEPT = 30
_OPTIONS = (
    "BatchMode=yes",  # it never asks
    "LogLevel=INFO",  # else a quiet configuration hides why it failed
    "ClearAllForwardings=yes",
    "ControlMaster=no",  # a connection that is there is used; a new one ends with us
    "RemoteCommand=none",
)


def ssh_command(host: Host, python: str, config: str | None) -> tuple[str, ...]:
    """The user's ssh, with a command that is the same for every run: what the user says goes through its input."""
    options = [word for option in _OPTIONS for word in ("-o", option)]
    place = ["-p", str(host.port)] if host.port else []
    login = ["-l", host.user] if host.user else []
    file = ["-F", config] if config else []
    return ("ssh", *file, "-T", *options, *place, *login, "--", host.name, f"exec {shlex.quote(python)} -m {REMOTE}")


class Connection:
    """A running ssh."""

    def __init__(self, host: Host, argv: tuple[str, ...], env: Mapping[str, str]) -> None:
        self.host = host
        self.child: Child = start(Process(argv=argv), env, talks=True)
        self.lines = {"out": Lines(), "err": Lines()}
        self.heard = time.monotonic()
        self.said: deque[str] = deque(maxlen=_KEPT)
        """The last lines of its standard error."""
        self.state = "connecting"
        self.ready: Mapping[str, Any] = {}
        self.status: int | None = None
        """How the ranks of the host ended."""
        self.open = 2
        """Pipes that have not ended."""
        if self.child.stdin:
            os.set_blocking(self.child.stdin.fileno(), True)

    def send(self, **message: object) -> None:
        """Say something to the host; nobody may be there any more."""
        with contextlib.suppress(OSError, ValueError):
            if self.child.stdin:
                self.child.stdin.write(line(message))
                self.child.stdin.flush()

    @property
    def gone(self) -> bool:
        """Its ssh has ended, and all that it said is read."""
        return self.open == 0 and self.child.poll() is not None
