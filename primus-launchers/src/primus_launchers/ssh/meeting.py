"""Where the ranks of all hosts meet: a port of the first one, which the others try to reach before the start."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from primus_core.errors import RunError

_REACH_SECONDS = 10.0


def listen(name: str, port: int) -> socket.socket:
    """Keep a port, a free one for 0, so that the other hosts can try it.

    Raises:
        RunError: somebody else has it.
    """
    try:
        return socket.create_server(("", port), backlog=1024)
    except OSError as error:
        raise RunError(
            f"port {port} of {name} is in use",
            why=f"the ranks would meet there: {error.strerror}",
            remedy="choose another master_port, or none: then a free one is taken",
        ) from None


def address(env: Mapping[str, str]) -> str:
    """This host's address as the other hosts may know it: the one that ssh came to, else its name."""
    words = env.get("SSH_CONNECTION", "").split()
    came_to = words[2] if len(words) == 4 else ""
    if came_to and not came_to.startswith(("127.", "fe80")) and came_to != "::1":
        return came_to
    return socket.gethostname()


def reach(name: str, first: str, port: int) -> None:
    """Try to reach the first host.

    Raises:
        RunError: it does not answer.
    """
    try:
        socket.create_connection((first, port), timeout=_REACH_SECONDS).close()
    except OSError as error:
        raise RunError(
            f"{name} does not reach the first host at {first}:{port}",
            why=f"{error.strerror or error}; the ranks meet there",
            remedy="set master_addr to an address of the first host that every host reaches, and open the port",
        ) from None
