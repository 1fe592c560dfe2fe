"""Going to node 0 only to say something: a node that cannot be one of the run says so there too, not at home alone."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping

from primus_core.nodes.line import GREETING, Line, LostError
from primus_core.nodes.told import as_error

_SECONDS = 4.0
_PAUSE_SECONDS = 0.2


def knock(address: str, port: int, message: Mapping[str, object]) -> None:
    """Tell node 0, if it is there.

    Raises:
        PrimusError: what it answers.
    """
    with contextlib.suppress(OSError, LostError):
        line = Line(_connection(address, port))
        try:
            if line.receive(_SECONDS).get("hello") == GREETING:
                line.send(**message)
                told = line.receive(_SECONDS)
                if "error" in told:
                    raise as_error(told["error"])
        finally:
            line.close()


def _connection(address: str, port: int) -> socket.socket:
    """Node 0 may have been started a moment later."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return socket.create_connection((address, port), _SECONDS)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
