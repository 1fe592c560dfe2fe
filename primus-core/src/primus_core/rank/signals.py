"""Passing signals on to the child, and ending a child that does not end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from types import FrameType

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
AS_TERM = (signal.SIGHUP, signal.SIGQUIT)
"""torchrun passes these on, and they mean: end in good order."""
_ENDING = (signal.SIGINT, signal.SIGTERM)
_REPEAT_SECONDS = 1.0


def block() -> None:
    """Hold all of these signals back, so that none is lost or hits the wrong process while the rank is set up."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (*FORWARDED, *AS_TERM))


def unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*FORWARDED, *AS_TERM))


class Forwarder:
    """Handles the parent's signals.

    The handlers themselves act, so that it does not matter what the parent is waiting for.
    """

    def __init__(self, child: int, grace: float) -> None:
        self._child = child
        self._handle = os.pidfd_open(child)
        self._grace = grace
        self._last: dict[int, float] = {}
        self._waits = True
        self.told_to_end: str | None = None
        """The first signal that asked the rank to end."""
        self.killed_late = False
        """The rank was still there when it should have ended."""

    @property
    def handle(self) -> int:
        """A descriptor that becomes readable when the child ends."""
        return self._handle

    def install(self) -> None:
        for number in (*FORWARDED, *AS_TERM):
            signal.signal(number, self._forward)
        signal.signal(signal.SIGALRM, self._kill)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def work_done(self, seconds: float) -> None:
        """The child has nothing to do but to end: kill it if that takes longer. Only the first call counts."""
        if self._waits and self.told_to_end is None:
            self._waits = False
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def child_ended(self) -> None:
        """Stop the grace period."""
        self._waits = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        sent = signal.SIGTERM if number in AS_TERM else signal.Signals(number)
        if sent in _ENDING and self._is_repeat(sent):
            return
        with contextlib.suppress(OSError):  # the child has ended
            signal.pidfd_send_signal(self._handle, sent)
            if sent in _ENDING and self.told_to_end is None:
                self.told_to_end = sent.name
                signal.setitimer(signal.ITIMER_REAL, self._grace)

    def _is_repeat(self, number: int) -> bool:
        """Ctrl-C comes from the terminal and from the launcher too; the second would interrupt the clean-up."""
        now = time.monotonic()
        before = self._last.get(number)
        self._last[number] = now
        return before is not None and now - before < _REPEAT_SECONDS

    def _kill(self, number: int, frame: FrameType | None) -> None:
        self.killed_late = True
        with contextlib.suppress(OSError):
            os.killpg(self._child, signal.SIGKILL)
