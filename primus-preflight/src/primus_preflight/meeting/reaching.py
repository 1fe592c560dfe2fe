"""Which nodes can be reached from here."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack


def reach(targets: Sequence[tuple[int, str, int]], seconds: float) -> list[tuple[int, float, str]]:
    """Connect to all at the same time.

    Args:
        targets: node, address, port.
        seconds: limit for all.

    Returns:
        For each node the seconds until it was reached, and why it was not; empty where it was.
    """
    found: dict[int, tuple[float, str]] = {}
    opened: dict[int, socket.socket] = {}
    began = time.monotonic()
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for node, address, port in targets:
            try:
                connection = stack.enter_context(_connecting(address, port))
            except OSError as error:
                found[node] = (0.0, str(error.strerror or error))
            else:
                opened[node] = connection
                selector.register(connection, selectors.EVENT_WRITE, node)
        while selector.get_map() and (left := began + seconds - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                found[key.data] = (time.monotonic() - began, _fault(opened[key.data]))
                selector.unregister(key.fileobj)
    late = (0.0, f"no answer within {seconds:g} s")
    return [(node, *found.get(node, late)) for node, _, _ in targets]


def _connecting(address: str, port: int) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    connection = socket.socket(family, kind, protocol)
    connection.setblocking(False)
    connection.connect_ex(where)
    return connection


def _fault(connection: socket.socket) -> str:
    number = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return os.strerror(number) if number else ""
