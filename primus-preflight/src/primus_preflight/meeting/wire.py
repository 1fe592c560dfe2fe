"""Messages between two processes: one line of JSON each, without waiting for either side."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Mapping
from typing import Any

BEAT_SECONDS = 2.0
"""How often each side says something, if only that it is there."""
LOST_SECONDS = 10.0
"""Nothing heard for so long: the other side is lost."""
_SEND_SECONDS = 5.0
_CHUNK = 1 << 16
LONGEST = 1 << 23
"""Bytes of one message of somebody who is known."""

Message = Mapping[str, Any]


class GoneError(Exception):
    """The other side is gone; says how that was seen."""


class Wire:
    """One end of a connection, which it owns.

    Args:
        longest: bytes of one message; who sends a longer one speaks another language.
    """

    def __init__(self, connection: socket.socket, longest: int = LONGEST) -> None:
        connection.settimeout(_SEND_SECONDS)
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._rest = b""
        self.longest = longest
        self.heard = time.monotonic()
        """When something last arrived."""

    def fileno(self) -> int:
        return self._connection.fileno()

    @property
    def peer(self) -> str:
        """Address of the other side."""
        return str(self._connection.getpeername()[0]).removeprefix("::ffff:")

    @property
    def own(self) -> str:
        """Address of this side, as the other one reaches it."""
        return str(self._connection.getsockname()[0]).removeprefix("::ffff:")

    def send(self, message: Message) -> None:
        """Send one message; an empty one is a sign of life.

        Raises:
            GoneError: it cannot be sent.
        """
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise GoneError(f"nothing can be sent to it: {error.strerror or error}") from None

    def receive(self) -> list[Message]:
        """All messages that have arrived; called when there is something to read.

        Raises:
            GoneError: the other side has ended, or speaks another language.
        """
        try:
            data = self._connection.recv(min(_CHUNK, self.longest))
        except OSError as error:
            raise GoneError(f"its connection broke: {error.strerror or error}") from None
        if not data:
            raise GoneError("it closed the connection")
        self.heard = time.monotonic()
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self.longest:
            raise GoneError("it speaks another language")
        return [message for message in map(_parsed, lines) if message]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.close()


def _parsed(line: bytes) -> Message:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):  # the latter: nested a thousand times
        message = None
    if not isinstance(message, dict):
        raise GoneError("it speaks another language")
    return message
