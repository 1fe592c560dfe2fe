"""What comes from the submitting host, and how long nothing has come."""

from __future__ import annotations

import os
import queue
import threading
import time
from typing import Any

from primus_launchers.ssh.wire import message


class Inbox:
    """Reads messages from a descriptor in a thread of its own, which ends with the process."""

    def __init__(self, descriptor: int) -> None:
        self._messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._heard = time.monotonic()
        self.closed = False
        """The other side has closed its end, or sends what is no message."""
        threading.Thread(target=self._read, args=(descriptor,), daemon=True).start()

    def next(self, seconds: float) -> dict[str, Any] | None:
        """The next message that is more than a sign of life; None where there is none for so long."""
        end = time.monotonic() + seconds
        while True:
            try:
                found = self._messages.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                return None
            if found.get("do") != "alive":
                return found

    def silent(self, seconds: float) -> bool:
        """Whether the other side is gone: closed, or without a sign of life for so long."""
        return self.closed or time.monotonic() - self._heard > seconds

    def _read(self, descriptor: int) -> None:
        rest = b""
        try:
            while data := os.read(descriptor, 1 << 16):
                self._heard = time.monotonic()
                *lines, rest = (rest + data).split(b"\n")
                for text in lines:
                    self._messages.put(message(text))
        except (OSError, ValueError):  # what cannot be read or understood is no connection
            pass
        self.closed = True
