"""What a child process says, line by line, and the signals that came meanwhile."""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Iterator
from types import FrameType

from primus_core.submit.lines import Lines
from primus_core.submit.processes import Child

_TICK = 0.2
_FORWARDED = {
    signal.SIGINT: signal.SIGINT,
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGHUP: signal.SIGTERM,
    signal.SIGQUIT: signal.SIGQUIT,
    signal.SIGUSR1: signal.SIGUSR1,
    signal.SIGUSR2: signal.SIGUSR2,
}


class Signals:
    """Keeps the signals that this process gets, to be asked for."""

    def __init__(self) -> None:
        self._waiting: list[int] = []

    def install(self) -> None:
        for number in _FORWARDED:
            signal.signal(number, self._signalled)

    def take(self) -> list[int]:
        """Those that came since the last call."""
        taken, self._waiting = self._waiting, []
        return taken

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._waiting.append(_FORWARDED[signal.Signals(number)])


def lines_of(child: Child) -> Iterator[tuple[str, bytes] | None]:
    """Lines of ``out`` and ``err`` until both are closed; None a few times a second while none come."""
    with selectors.DefaultSelector() as selector:
        for name, file in (("out", child.stdout), ("err", child.stderr)):
            if file is not None:
                selector.register(file, selectors.EVENT_READ, (name, Lines()))
        while selector.get_map():
            for key, _ in selector.select(_TICK):
                name, lines = key.data
                data = os.read(key.fd, 1 << 16)
                yield from ((name, line) for line in lines.feed(data))
                if not data:
                    selector.unregister(key.fileobj)
            yield None
