"""Ports of this host. Standard library only: the rank's parent uses it."""

from __future__ import annotations

import socket


def free_port(address: str = "") -> int:
    """A port that nobody has now; whoever binds it first has it.

    Args:
        address: of this host; empty: any.
    """
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
    return port
