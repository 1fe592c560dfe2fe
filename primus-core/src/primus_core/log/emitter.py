"""The child's end of the events pipe."""

from __future__ import annotations

import os
import threading
import time

from primus_core.log.events import Event, encode
from primus_core.log.wire import encode_record


class Emitter:
    """Writes whole events to a pipe, from any thread.

    The parent always drains the pipe, so a write waits for at most as long as the parent needs.
    """

    def __init__(self, descriptor: int, address: str = "") -> None:
        self.address = address
        """The path at which another process opens the same pipe."""
        self._descriptor = descriptor
        self._renew_lock()
        # a helper process that is forked while another thread writes would wait for the lock for ever
        os.register_at_fork(after_in_child=self._renew_lock)

    def emit(self, event: Event) -> None:
        """Write one event.

        Raises:
            OSError: the parent is gone; the rank is about to be killed.
        """
        self._write(encode(event))

    def record(self, level: str, event: str, source: str, values: Event) -> None:
        """Write a record of now."""
        self._write(encode_record(level, event, source, values, time.time()))

    def _write(self, line: bytes) -> None:
        with self._lock:
            written = os.write(self._descriptor, line)
            while written < len(line):  # a signal came while the pipe was full
                written += os.write(self._descriptor, line[written:])

    def _renew_lock(self) -> None:
        self._lock = threading.RLock()
