"""The port of node 0 where the nodes meet."""

from __future__ import annotations

import contextlib
import errno
import socket

from primus_core.errors import ConfigError, RunError
from primus_core.nodes.facts import Facts
from primus_core.nodes.place import Place

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


def listen_as_first(place: Place, facts: Facts) -> socket.socket:
    """Wait where the other nodes expect node 0.

    Raises:
        ConfigError: they expect it on another host.
        RunError: the port is in use.
    """
    _check_own(place, facts)
    try:
        return listen(place.port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise RunError(f"cannot wait at port {place.port}", why=str(error), remedy="choose another") from None
        raise RunError(
            f"port {place.port} is in use on {facts.host}, where the nodes meet",
            why="another program, or another run, waits there",
            remedy="end it, or set MASTER_PORT to another port on every node",
        ) from None


def _check_own(place: Place, facts: Facts) -> None:
    """Whatever name or address of this host will do."""
    try:
        found = socket.getaddrinfo(place.address, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(
            f"MASTER_ADDR is {place.address}, which {facts.host} cannot resolve",
            why=str(error),
            remedy="give an address, or a name that every node knows",
        ) from None
    if not any(_is_own(family, str(address[0])) for family, _, _, _, address in found):
        addresses = ", ".join(sorted({str(address[0]) for *_, address in found}))
        known = f" ({addresses})" if addresses != place.address else ""
        raise ConfigError(
            f"MASTER_ADDR is {place.address}{known}, which is not {facts.host}, where NODE_RANK is 0",
            why="the nodes meet at node 0",
            remedy=f"set MASTER_ADDR to a name or address of {facts.host}, or NODE_RANK=0 there",
        )


def _is_own(family: int, address: str) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        try:
            trial.bind((address, 0))
        except OSError:
            return False
    return True
