"""What a rank's parent does with a signal: passes it on, and ends a child that does not end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from types import FrameType

from primus_core import linux
from primus_core.patience import Patience

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
AS_TERM = (signal.SIGHUP, signal.SIGQUIT)
"""torchrun passes these on, and they mean: end in good order."""
LAUNCHER_DIED = signal.SIGQUIT
"""What the kernel sends a rank whose launcher was killed."""
_ENDING = (signal.SIGINT, signal.SIGTERM)
_AT_ONCE = signal.SIGHUP
"""Ends a child that catches the signal by which it was asked to stop: nobody catches this one."""
_REPEAT_SECONDS = 1.0
_LOOK_SECONDS = 0.5


def block() -> None:
    """Hold all of these signals back, so that none is lost or hits the wrong process while the rank is set up."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (*FORWARDED, *AS_TERM))


def unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*FORWARDED, *AS_TERM))


class Forwarder:
    """Handles the parent's signals.

    The handlers themselves act, so that it does not matter what the parent is waiting for.

    Args:
        failed: whether another rank of the run has failed: a signal then means the end, since no iteration can be
            finished any more.
    """

    def __init__(self, child: int, patience: Patience, failed: Callable[[], bool] = lambda: False) -> None:
        self._child = child
        self._handle = os.pidfd_open(child)
        self._patience = patience
        self._failed = failed
        self._last: dict[int, float] = {}
        self._waits = True
        self._deadline: float | None = None
        self.told_to_stop: str | None = None
        """The signal that asked the rank to save and end."""
        self.told_to_end: str | None = None
        """The first signal that asked the rank to end at once."""
        self.killed_late = False
        """The rank was still there when it should have ended."""

    @property
    def handle(self) -> int:
        """A descriptor that becomes readable when the child ends."""
        return self._handle

    def install(self) -> None:
        for number in (*FORWARDED, *AS_TERM):
            signal.signal(number, self._signalled)
        signal.signal(signal.SIGALRM, self._look)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def work_done(self, seconds: float) -> None:
        """The child has nothing to do but to end: kill it if that takes longer. Only the first call counts."""
        if self._waits and self.told_to_end is None:
            self._waits = False
            self._wait_at_most(seconds)

    def child_ended(self) -> None:
        """Stop the grace period."""
        self._waits = False
        self._deadline = None
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        repeat = self._is_repeat(signal.SIGTERM if number in AS_TERM else number)
        if repeat and number in (*_ENDING, *self._patience.stop):
            return
        if number in self._patience.stop and self.told_to_end is None and not self._failed():
            if self.told_to_stop is None:
                self._stop(number)
            elif number == signal.SIGINT:  # the user has no patience
                self._end(number)
        elif number in (*_ENDING, *AS_TERM, *self._patience.stop):
            self._end(number)
        else:
            self._send(number)

    def _stop(self, number: int) -> None:
        """The child, where it does not catch the signal yet, dies of it: it has nothing to save."""
        self.told_to_stop = signal.Signals(number).name
        self._send(number)
        self._wait_at_most(self._patience.stopping)

    def _end(self, number: int) -> None:
        sent = number if number == signal.SIGINT else signal.SIGTERM
        if sent in self._patience.stop and linux.catches(self._child, sent):
            sent = _AT_ONCE
        self._send(sent)
        if self.told_to_end is None:
            self.told_to_end = signal.Signals(signal.SIGTERM if number in AS_TERM else number).name
            self._wait_at_most(self._patience.grace)

    def _send(self, number: int) -> None:
        with contextlib.suppress(OSError):  # the child has ended
            signal.pidfd_send_signal(self._handle, signal.Signals(number))

    def _is_repeat(self, number: int) -> bool:
        """Ctrl-C comes from the terminal and from the launcher too; the second would interrupt the clean-up."""
        now = time.monotonic()
        before = self._last.get(number)
        self._last[number] = now
        return before is not None and now - before < _REPEAT_SECONDS

    def _wait_at_most(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        signal.setitimer(signal.ITIMER_REAL, min(seconds, _LOOK_SECONDS), _LOOK_SECONDS)

    def _look(self, number: int, frame: FrameType | None) -> None:
        """Every half second, from the moment that the rank should end."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self.killed_late = True
            with contextlib.suppress(OSError):
                os.killpg(self._child, signal.SIGKILL)
        elif self.told_to_stop and self.told_to_end is None and self._waits and self._failed():
            self._end(signal.SIGTERM)
