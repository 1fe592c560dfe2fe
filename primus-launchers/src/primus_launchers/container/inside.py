"""``primus_launchers.container.inside COMMAND...``: the first process in the container.

Its standard input brings lines of JSON from the host: first the variables of the ranks' environment, then signals. So
no value is an argument, nor in what the engine writes down about a container, and a signal that comes early is not
lost. The end of the input means that the program on the host is gone: then the ranks end too, whatever the engine's
client did. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, BinaryIO

from primus_core.log.events import encode

KIND = "container"
_GRACE_SECONDS = 5.0
"""For the ranks to say why they end, once nobody listens any more."""
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
"""What an engine may send to end a container."""
_IGNORED = (signal.SIGUSR1, signal.SIGUSR2)
"""A command that does not know them must not die of them."""


def tell(state: str, **values: object) -> None:
    """Say something to the program on the host."""
    with suppress(OSError):
        os.write(1, encode({"kind": KIND, "state": state, **values}))


class Inside:
    """The program's state: one command in a session of its own."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        self._child = os.posix_spawnp(argv[0], list(argv), env, file_actions=[nothing], setsid=True)
        for number in _PASSED_ON:
            signal.signal(number, self._signalled)

    def wait(self) -> int:
        """Take the exit status of whatever ends, until the command does; returns its status as shells have it."""
        while True:
            pid, status = os.wait()
            if pid == self._child:
                code = os.waitstatus_to_exitcode(status)
                return 128 - code if code < 0 else code

    def follow(self, lines: BinaryIO) -> None:
        """Do what the host says, until it says no more."""
        for line in lines:
            with suppress(ValueError, KeyError):
                self._send(json.loads(line)["signal"])
        self._send(signal.SIGQUIT)  # not SIGTERM: nobody can finish an iteration any more
        time.sleep(_GRACE_SECONDS)
        os._exit(128 + signal.SIGKILL)  # the end of the first process ends all others

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._send(number)

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._child, number)


def request_of(line: bytes) -> dict[str, Any]:
    """The first line: ``env``. Nothing came: nobody is there to start anything for."""
    found = json.loads(line or b"{}")
    return found if isinstance(found, dict) else {}


def main(argv: Sequence[str]) -> int:
    """The program; returns its exit status."""
    source = sys.stdin.buffer
    tell("started")
    request = request_of(source.readline())
    if "env" not in request:
        return 128 + signal.SIGQUIT
    inside = Inside(argv, {**os.environ, **request["env"]})
    threading.Thread(target=inside.follow, args=(source,), daemon=True).start()
    status = inside.wait()
    tell("ended", status=status)
    return status


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # a thread waits for the input
