"""A connection between two nodes: messages of one line, and a sign of life while there is nothing to say."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

GREETING = "primus-nodes"
"""The first word of node 0."""
BEAT_SECONDS = 2.0
LOST_SECONDS = 10.0
"""Nothing heard for so long: the other side is lost."""
_LONGEST = 1 << 26
"""Bytes of a message: plans of large runs, and what their ranks report."""


class LostError(Exception):
    """The other side is gone; says how that was seen."""


class Line:
    """Both directions of one connection. What arrives waits until it is asked for.

    Args:
        connection: is owned from now on.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(LOST_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._arrived: queue.Queue[Mapping[str, Any]] = queue.Queue()
        self._files: queue.Queue[tuple[str, str]] = queue.Queue()
        self._sending = threading.Lock()
        self._closed = threading.Event()
        self._lost = ""
        self._threads = [
            threading.Thread(target=self._listen, name="node-listen", daemon=True),
            threading.Thread(target=self._beat, name="node-beat", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def lost(self) -> str:
        """How the other side was lost; empty while it is there."""
        return self._lost

    def send(self, **message: object) -> None:
        """Send one message; one that cannot be sent is lost with the line."""
        try:
            with self._sending:
                self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            self._lose(f"nothing can be sent to it: {error.strerror or error}")

    def receive(self, seconds: float) -> Mapping[str, Any]:
        """The next message.

        Raises:
            TimeoutError: none came in time.
            LostError: none will come.
        """
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(queue.Empty):
                return self._arrived.get(timeout=0.05)
            if self._lost:
                raise LostError(self._lost)
            if time.monotonic() > deadline:
                raise TimeoutError

    def files(self) -> Iterator[tuple[str, str]]:
        """Name and text of each file that has arrived; all that were sent before a message come before it."""
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._files.get_nowait()

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._connection.close()

    def _lose(self, how: str) -> None:
        if not self._closed.is_set():
            self._lost = self._lost or how

    def _listen(self) -> None:
        if how := self._read():
            self._lose(how)

    def _read(self) -> str:
        """Take what arrives; returns how that ended, or nothing for a line that is closed here."""
        rest = b""
        while not self._closed.is_set():
            try:
                data = self._connection.recv(1 << 16)
            except TimeoutError:
                return f"nothing was heard of it for {LOST_SECONDS:.0f} s"
            except OSError as error:
                return f"its connection broke: {error.strerror or error}"
            if not data:
                return "it closed the connection"
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > _LONGEST:
                return "it speaks another language"
            for line in lines:
                try:
                    message = json.loads(line)
                except ValueError:
                    return "it speaks another language"
                if isinstance(message, dict) and "file" in message:
                    self._files.put((str(message["file"]), str(message.get("text", ""))))
                elif isinstance(message, dict) and message:
                    self._arrived.put(message)
        return ""

    def _beat(self) -> None:
        while not self._closed.wait(BEAT_SECONDS) and not self._lost:
            self.send()
