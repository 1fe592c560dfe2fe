"""The way to the coordinator: node 0, or, where that cannot be reached, the first of the next nodes that can."""

from __future__ import annotations

import contextlib
import select
import socket
import time

from primus_preflight.meeting.wire import GoneError, Message, Wire

_PAUSE_SECONDS = 0.2
_ANSWER_SECONDS = 5.0


def join(address: str, port: int, hello: Message, seconds: float) -> tuple[Wire, list[Message]]:
    """Come to a meeting, which may begin a little later.

    Args:
        hello: what this node says of itself.
        seconds: how long to try.

    Returns:
        The connection, and what the coordinator has said by now.

    Raises:
        GoneError: it was not reached in time; says the last reason.
    """
    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        try:
            return _once(address, port, hello, max(0.1, min(left, _ANSWER_SECONDS)))
        except (OSError, GoneError) as error:
            if time.monotonic() + _PAUSE_SECONDS > deadline:
                reason = error.strerror or error if isinstance(error, OSError) else error
                raise GoneError(f"{address}:{port} cannot be reached: {reason}") from None
        time.sleep(_PAUSE_SECONDS)


def _once(address: str, port: int, hello: Message, seconds: float) -> tuple[Wire, list[Message]]:
    wire = Wire(socket.create_connection((address, port), seconds))
    try:
        wire.send(hello)
        if not select.select([wire], [], [], seconds)[0]:
            raise GoneError("it does not answer")
        said = wire.receive()
        if not said or said[0].get("do") != "welcome":
            raise GoneError("somebody else answers there")
    except BaseException:
        wire.close()
        raise
    return wire, said


def own_machine() -> str:
    """The same text on all nodes that share the cores of one machine, and on no others; empty where it is not told."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""
