"""The parent's work while its child lives, and when it has ended."""

from __future__ import annotations

import math
import os
import select
import signal
import time

from primus_core.errors import ExitCode
from primus_core.failuremark import FailureMark
from primus_core.rank import leftovers, requeue
from primus_core.rank.channels import LONGEST_EVENT, LONGEST_LINE, Channels, LineReader
from primus_core.rank.ending import Ending, ending_of, write_report, write_torchrun_error
from primus_core.rank.planfile import Brief
from primus_core.rank.router import Router
from primus_core.rank.signals import Forwarder, unblock
from primus_core.rank.stacks import Stacks
from primus_core.rank.state import State
from primus_core.rank.terminal import Terminal
from primus_core.rank.watchdog import Watchdog

_LINGER_SECONDS = 2.0
_SLOW_READER_SECONDS = 1.0
_KILL_ROUNDS = 50
_HUNG = ExitCode.RUNTIME << 8
"""The status of a rank that was ended because the run hangs."""
_BUSY_SECONDS = 0.01
_REST_SECONDS = 0.001
"""Between two looks at a child that never pauses: what it says meanwhile is written at once, for a fraction of the CPU.
Its pipes hold more than it can say in that time."""


class Supervisor:
    """Reads a child's pipes until it and what it started are gone.

    Args:
        error_file: where torchrun looks for the reason of a failure.
        shutdown: seconds that the child may take to end when its work is done.
    """

    def __init__(
        self,
        brief: Brief,
        *,
        host: str,
        router: Router,
        terminal: Terminal,
        state: State,
        forwarder: Forwarder,
        mark: FailureMark,
        child: int,
        channels: Channels,
        stacks: Stacks,
        watchdog: Watchdog,
        error_file: str | None,
        shutdown: float,
    ) -> None:
        self._brief = brief
        self._host = host
        self._router = router
        self._terminal = terminal
        self._state = state
        self._forwarder = forwarder
        self._mark = mark
        self._child = child
        self._stacks = stacks
        self._watchdog = watchdog
        self._error_file = error_file
        self._shutdown = shutdown
        self._started = time.time()
        self._woken = 0.0
        self._ending: Ending | None = None
        self._readers = {
            pipe.read: LineReader(pipe.read, source, longest)
            for pipe, source, longest in (
                (channels.stdout, "stdout", LONGEST_LINE),
                (channels.stderr, "stderr", LONGEST_LINE),
                (channels.events, "events", LONGEST_EVENT),
            )
        }
        self._poll = select.poll()
        for descriptor in (*self._readers, forwarder.handle):
            self._poll.register(descriptor, select.POLLIN)

    def run(self) -> int:
        """Watch the rank to its end; returns its exit code."""
        self._forwarder.install()
        unblock()
        while self._ending is None:
            self._wait(min(100 if self._terminal.waits else math.inf, self._watchdog.milliseconds))
            self._rest()
            self._watchdog.look()
        self._linger()
        self._end_leftovers()
        for reader in self._readers.values():
            self._deliver(reader, reader.partial())
        write_report(self._brief, self._host, self._state, self._ending)
        requeue.mark(self._brief, self._state, self._ending)
        self._stacks.discard_if_empty()
        self._watchdog.close()
        self._terminal.finish(_SLOW_READER_SECONDS)
        return self._ending.exit_code

    def _wait(self, milliseconds: float | None) -> None:
        """Handle what comes next."""
        self._terminal.flush()
        for descriptor, _ in self._poll.poll(milliseconds):
            if descriptor == self._forwarder.handle:
                self._child_ended()
            else:
                self._read(self._readers[descriptor])

    def _rest(self) -> None:
        if time.monotonic() - self._woken < _BUSY_SECONDS:
            time.sleep(_REST_SECONDS)
        self._woken = time.monotonic()

    def _read(self, reader: LineReader) -> bool:
        """One read; False when nothing waits."""
        lines = reader.read()
        if lines is not None:
            self._deliver(reader, lines)
        elif reader.ended:
            self._poll.unregister(reader.descriptor)
        return lines is not None

    def _deliver(self, reader: LineReader, lines: list[bytes]) -> None:
        if reader.source == "events":
            self._router.events(lines)
            self._watchdog.heard()
            if self._state.done:
                self._forwarder.work_done(self._shutdown)
        else:
            self._router.stream(reader.source, lines)

    def _child_ended(self) -> None:
        """Report at once: torchrun looks for the error file as soon as it sees a rank end."""
        _, status, usage = os.wait4(self._child, 0)
        self._forwarder.child_ended()
        self._poll.unregister(self._forwarder.handle)
        self._drain()
        self._watchdog.look(last=True)
        stopped = self._stopped(status)
        self._ending = ending_of(
            _HUNG if self._watchdog.verdict else 0 if self._stood_in_the_way or stopped else status,
            stopped=stopped,
            told_to_end=self._told_to_end,
            started=self._started,
            ended=time.time(),
            peak_bytes=usage.ru_maxrss * 1024,
            stack=self._stacks.read(),
        )
        self._tell(self._ending)

    @property
    def _told_to_end(self) -> str | None:
        """Why it ended in consequence of something else; None for the rank that a hang comes from."""
        if self._watchdog.verdict is not None:
            return None if self._watchdog.speaks else "a hang of the run"
        late = self._forwarder.killed_late
        return self._forwarder.told_to_end or (late and self._forwarder.told_to_stop) or None

    def _stopped(self, status: int) -> str | None:
        """The signal for which the child saved and ended, or died of before there was anything to save."""
        asked = self._forwarder.told_to_stop
        if status == 0:
            return self._state.stopped
        died = os.WIFSIGNALED(status) and asked and signal.Signals[asked] == os.WTERMSIG(status)
        return asked if died and self._forwarder.told_to_end is None else None

    def _drain(self) -> None:
        """What the child wrote is in the pipes; helpers that go on writing must not keep us here."""
        for reader in self._readers.values():
            for _ in range(64):
                if reader.ended or not self._read(reader):
                    break

    def _tell(self, ending: Ending) -> None:
        if ending.exit_code and self._state.failure is None:
            level = "info" if ending.told_to_end else "error"
            told = {"told_to_end": ending.told_to_end} if ending.told_to_end else {}
            self._router.record(level, ending.describe(self._state), **told)
        if self._stood_in_the_way:
            text = "the work is done, but the process did not end by itself and was killed; the result stands"
            self._router.record("warning", text, waited_seconds=self._shutdown)
        elif self._forwarder.killed_late:
            self._router.record("error", f"did not end in time after {ending.told_to_end}, so it was killed")
        write_report(self._brief, self._host, self._state, ending)
        if ending.exit_code and self._forwarder.told_to_end is None and not self._brief.apart:
            self._mark.set({"rank": self._brief.rank, "host": self._host, "time": ending.ended})
        if ending.exit_code and self._error_file:
            write_torchrun_error(self._error_file, self._brief, self._state, ending)

    @property
    def _stood_in_the_way(self) -> bool:
        """The child did its work, hung while its interpreter shut down, and was killed: that is no failure."""
        return self._forwarder.killed_late and self._state.done

    def _linger(self) -> None:
        """Give helper processes of the child a moment to end by themselves, and read what they still write."""
        deadline = time.monotonic() + _LINGER_SECONDS
        while leftovers.reap() and time.monotonic() < deadline:
            self._wait(20)
        self._drain()

    def _end_leftovers(self) -> None:
        """Kill what is left, in rounds: the children of a killed process become ours only then."""
        killed: dict[int, leftovers.Process] = {}
        for _ in range(_KILL_ROUNDS):
            if not leftovers.reap():
                break
            processes = leftovers.find(self._child)
            killed.update({process.pid: process for process in processes})
            leftovers.kill(processes)
            self._wait(20)
        if killed:
            commands = [process.command for process in killed.values()]
            self._router.record("info", f"killed {len(killed)} processes that the rank left behind", commands=commands)
        self._drain()
