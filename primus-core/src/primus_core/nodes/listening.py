"""The port of node 0 where the nodes meet."""

from __future__ import annotations

import contextlib
import socket

_POLL_SECONDS = 0.2


def listen(port: int) -> socket.socket:
    """Wait at a port, on every address of this host; accepting has a short time limit.

    Raises:
        OSError: somebody else has it.
    """
    listener = _server(port)
    listener.settimeout(_POLL_SECONDS)
    return listener


def _server(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))
