"""Watching the processes of a submission until the last one has ended."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any

from attrs import define, field, frozen

from primus_core.linux import adopt_orphans
from primus_core.log.events import Event
from primus_core.log.redaction import Redactor
from primus_core.patience import Patience
from primus_core.plan import Process
from primus_core.submit.lines import Lines, sort_out
from primus_core.submit.processes import children, descendants, kill, reap, signal_group, start

SPARE_SECONDS = 15.0
"""Until everything is killed, beyond what torchrun waits for the ranks' parents, and these for the ranks."""
LINGER_SECONDS = 2.0
"""From the end of the processes until what they left running is killed."""
_GONE_SECONDS = 5.0
"""How long a killed process may take to disappear: the kernel frees its memory first."""
_TICK_SECONDS = 0.2
_LOOK_SECONDS = 1.0
_FORWARDED = {
    signal.SIGINT: signal.SIGINT,
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGHUP: signal.SIGTERM,
    signal.SIGUSR1: signal.SIGUSR1,
    signal.SIGUSR2: signal.SIGUSR2,
}
_MESSAGES = (signal.SIGUSR1, signal.SIGUSR2)
"""They end nothing, unless they are among the signals that ask a run to stop."""


@frozen(kw_only=True)
class Ended:
    """How the processes of a submission ended."""

    statuses: tuple[int, ...]
    """As `subprocess` reports them: negative for a signal."""
    signal: int | None
    """The signal by which the user or the system asked for the end; None where nobody did."""
    stop: bool
    """It was one that asks for a checkpoint before the end, and nobody and no deadline cut that short."""
    killed: int | None
    """The signal that ended a process which nobody had asked to end."""


@define
class _Stream:
    """One pipe of a process."""

    file: IO[bytes]
    log: IO[bytes]
    lines: Lines = field(factory=Lines)


class Supervisor:
    """Runs processes to their end. As a context it restores signal handlers and leaves no process behind.

    To be used in the main thread, where signals arrive.
    """

    def __init__(
        self,
        *,
        on_event: Callable[[Event], None],
        on_notice: Callable[[str], None],
        on_tick: Callable[[], None] = lambda: None,
        redact: Redactor,
        log_dir: Path,
        patience: Patience | None = None,
        failed: Callable[[], bool] = lambda: False,
        first_host: int = 0,
    ) -> None:
        self._on_event, self._on_notice, self._on_tick = on_event, on_notice, on_tick
        self._redact, self._log_dir = redact, log_dir
        self._patience, self._failed = patience or Patience(), failed
        self._grace = self._patience.torchrun + SPARE_SECONDS
        self._first_host = first_host
        self._looked = 0.0
        self._children: list[subprocess.Popen[bytes]] = []
        self._untold: dict[int, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []
        self._selector = selectors.DefaultSelector()
        self._signals: list[int] = []
        self._deadline: float | None = None
        self._handlers: dict[int, Any] = {}
        self._others: list[int] = []
        self._killed: int | None = None
        self._ends_badly = False
        self._forced = False

    def __enter__(self) -> Supervisor:
        self._others = children(os.getpid())
        adopt_orphans(True)
        self._handlers = {number: signal.signal(number, self._signalled) for number in _FORWARDED}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill_all()
        adopt_orphans(False)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for key in list(self._selector.get_map().values()):
            key.data.file.close()
        self._selector.close()
        for log in self._logs:
            log.close()

    def run(self, processes: Sequence[Process], env: Mapping[str, str]) -> Ended:
        """Start the processes and pass on what they say until they, and what they started, have ended.

        Raises:
            DependencyError: a program cannot be started.
            OSError: the log cannot be written.
        """
        self._log_dir.mkdir(parents=True, exist_ok=True)
        for number, process in enumerate(processes, self._first_host):
            if not self._signals:
                self._start(number, process, env)
        while self._running():
            self._read(_TICK_SECONDS)
            self._obey()
        self._obey()  # a process that ended last may have been killed
        self._linger()
        return Ended(
            statuses=tuple(child.wait() for child in self._children),
            signal=self._signals[0] if self._signals else None,
            stop=self._is_stop and not self._forced,
            killed=self._killed,
        )

    def _start(self, number: int, process: Process, env: Mapping[str, str]) -> None:
        log = (self._log_dir / f"host-{number}.log").open("ab", buffering=0)
        self._logs.append(log)
        child = start(process, env)
        self._children.append(child)
        self._untold[child.pid] = child
        if self._signals:  # it came while the child was started, and was not for it yet
            self._tell_all(_FORWARDED[signal.Signals(self._signals[0])])
        for file in (child.stdout, child.stderr):
            if file is not None:
                self._selector.register(file, selectors.EVENT_READ, _Stream(file, log))

    def _running(self) -> bool:
        return None in [child.poll() for child in self._children]

    def _read(self, seconds: float) -> bool:
        """Read what is there, waiting for it at most so long; False when every pipe is closed."""
        self._on_tick()
        if not self._selector.get_map():
            time.sleep(min(seconds, 0.02))
            return False
        for key, _ in self._selector.select(seconds):
            stream: _Stream = key.data
            data = os.read(stream.file.fileno(), 1 << 16)
            self._take(stream, data)
            if not data:
                self._selector.unregister(stream.file)
                stream.file.close()
        return True

    def _take(self, stream: _Stream, data: bytes) -> None:
        for line in stream.lines.feed(data):
            noise, event = sort_out(line)
            if noise.strip():
                text = noise.decode("utf-8", "backslashreplace").rstrip("\r")
                with contextlib.suppress(OSError):  # a full disk loses lines; the run goes on
                    stream.log.write(f"{self._redact(text)}\n".encode())
            if event is not None:
                self._on_event(event)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        """The signal handler. Forwards at once, of those that ask for the end the first alone."""
        sent = _FORWARDED[signal.Signals(number)]
        if sent in _MESSAGES and sent not in self._patience.stop:
            for child in tuple(self._children):
                signal_group(child, sent)
            return
        self._signals.append(number)
        if len(self._signals) == 1:
            self._tell_all(sent)

    @property
    def _is_stop(self) -> bool:
        """The run was asked to save before it ends."""
        return bool(self._signals) and _FORWARDED[signal.Signals(self._signals[0])] in self._patience.stop

    def _tell_all(self, number: int) -> None:
        """Send a signal to those that were sent none yet: torchrun takes a second one amiss.

        Taking a child out and telling it is one step, so that the handler may interrupt this at any place.
        """
        for pid in tuple(self._untold):
            child = self._untold.pop(pid, None)
            if child is not None:
                signal_group(child, number)

    def _obey(self) -> None:
        """What follows from a signal or from the failure of a process: a deadline for all, and then the end."""
        if self._deadline is None and self._signals:
            self._announce(signal.Signals(self._signals[0]))
            self._deadline = time.monotonic() + self._grace + (self._patience.stopping if self._is_stop else 0)
        elif self._has_failed():
            self._tell_all(signal.SIGTERM)  # the processes of a submission belong together
            self._deadline = min(self._deadline or math.inf, time.monotonic() + self._grace)
        if self._impatient() or (self._deadline is not None and time.monotonic() > self._deadline):
            self._forced = True
            self._kill_all()

    def _announce(self, asked: signal.Signals) -> None:
        again = " again" if asked == signal.SIGINT else ""
        goes_on = "the run finishes its iteration and saves" if self._is_stop else "waiting for the ranks to end"
        self._on_notice(f"{asked.name}: {goes_on}; Ctrl-C{again} kills {'it' if self._is_stop else 'them'}")

    def _has_failed(self) -> bool:
        """Told once: a process of the submission ended badly, or a rank anywhere left the mark of a failure."""
        if self._ends_badly or not (any(child.returncode for child in self._children) or self._is_marked()):
            return False
        if self._deadline is None:
            self._killed = next((-child.returncode for child in self._children if (child.returncode or 0) < 0), None)
        self._ends_badly = True
        return True

    def _is_marked(self) -> bool:
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return False
        self._looked = now
        return self._failed()

    def _impatient(self) -> bool:
        """The user pressed Ctrl-C after the first signal."""
        return signal.SIGINT in self._signals[1:]

    def _linger(self) -> None:
        """Wait a little for the rest of the output, and for what the processes left running."""
        end = time.monotonic() + LINGER_SECONDS
        while (self._read(0.02) or self._alive()) and time.monotonic() < end and not self._impatient():
            reap(self._adopted())

    def _alive(self) -> list[int]:
        return descendants(os.getpid(), without=self._others)

    def _adopted(self) -> list[int]:
        started = {child.pid for child in self._children}  # their status belongs to `subprocess`
        return [pid for pid in children(os.getpid()) if pid not in started and pid not in self._others]

    def _kill_all(self) -> None:
        """End everything below us, also what is started meanwhile."""
        killed: set[int] = set()
        end = time.monotonic() + _GONE_SECONDS
        while (alive := self._alive()) and time.monotonic() < end:
            kill(alive)
            killed.update(alive)
            self._running()
            reap(self._adopted())
            time.sleep(0.01)
        reap(self._adopted())
        if killed:
            self._on_notice(f"killed {len(killed)} process{'es' * (len(killed) > 1)} that had not ended")
