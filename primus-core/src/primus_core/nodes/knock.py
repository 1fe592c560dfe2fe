"""Going to node 0 only to be refused: a node that cannot be one of the run says so there too, not at home alone."""

from __future__ import annotations

import contextlib
import socket
import time

from primus_core.nodes.facts import Facts
from primus_core.nodes.line import GREETING, Line, LostError
from primus_core.nodes.place import Place
from primus_core.nodes.told import as_error

_SECONDS = 4.0
_PAUSE_SECONDS = 0.2


def knock(place: Place, facts: Facts) -> None:
    """Tell node 0, if it is there, of a node that cannot be one of its run.

    Raises:
        PrimusError: what it answers.
    """
    with contextlib.suppress(OSError, LostError):
        line = Line(_connection(place))
        try:
            if line.receive(_SECONDS).get("hello") == GREETING:
                line.send(**facts.to_json())
                told = line.receive(_SECONDS)
                if "error" in told:
                    raise as_error(told["error"])
        finally:
            line.close()


def _connection(place: Place) -> socket.socket:
    """Node 0 may have been started a moment later."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return socket.create_connection((place.address, place.port), _SECONDS)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
