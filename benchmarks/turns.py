"""Two trainings on one machine that take turns: one is stopped while the other goes on.

So both meet the same machine: what slows it for a minute slows as many steps of the one as of the other.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

TURN = 10
"""Steps of one turn."""
_CUT = 3
"""Steps after a turn that the stop may have lengthened: the one that it falls into, and those that are seen too late,
because a log is written by another process.
"""
_POLL = 0.1
"""Seconds between two looks at the trace, which cost the trainings time too."""
_PATIENCE = 600.0
"""Seconds without a step after which a training is taken for stuck."""

Times = Callable[[Path], list[float]]
"""Reads the step times that the library itself has recorded so far in a folder; in ms."""


class Failed(Exception):
    """A training ended with an error. The text says which, and what it wrote."""


class Training:
    """One run under torchrun; a context manager that leaves no process behind."""

    def __init__(self, argv: Sequence[str], folder: Path, env: Mapping[str, str], times: Times) -> None:
        self._folder = folder
        self._times = times
        self._turns: list[range] = []
        self._cpu: list[float] = []
        self._output = folder / "output.txt"
        with self._output.open("w") as file:
            self._process = subprocess.Popen(
                argv, stdout=file, stderr=subprocess.STDOUT, env=dict(env), start_new_session=True
            )

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)
        self._process.wait()

    def steps(self) -> int:
        """How many are done."""
        return len(self._times(self._folder))

    def go(self, until: int) -> bool:
        """Go on until so many steps are done; False once the training has ended.

        Raises:
            Failed: it ended with an error, or makes no more steps.
        """
        self._signal(signal.SIGCONT)
        deadline = time.monotonic() + _PATIENCE
        while self._process.poll() is None and self.steps() < until:
            if time.monotonic() > deadline:
                raise Failed(f"no step for {_PATIENCE:.0f} s\n{self._last_words()}")
            time.sleep(_POLL)
        if self._process.poll() is None:
            return True
        if self._process.returncode:
            raise Failed(f"exit code {self._process.returncode}\n{self._last_words()}")
        return False

    def stop(self) -> None:
        """Until the next turn."""
        self._signal(signal.SIGSTOP)
        begun = self._turns[-1].stop + _CUT if self._turns else 0
        self._turns.append(range(begun, self.steps()))
        self._cpu.append(sum(map(_cpu_seconds, _family(self._process.pid))))

    def turns(self) -> list[list[float]]:
        """Step times of each turn in ms, without those that a stop has cut."""
        times = self._times(self._folder)
        return [times[turn.start : turn.stop] for turn in self._turns]

    def cpu_per_step(self, warm_up: int) -> float:
        """CPU seconds of all processes for a step, over all turns but so many at the begin; NaN where none is left."""
        steps = [turn.stop for turn in self._turns][warm_up:]
        spent = self._cpu[warm_up:]
        return (spent[-1] - spent[0]) / (steps[-1] - steps[0]) if len(steps) > 1 else math.nan

    def finish(self) -> float:
        """CPU seconds of the whole run, once it has ended.

        Raises:
            Failed: it ended with an error.
        """
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        if self._process.returncode:
            raise Failed(f"exit code {self._process.returncode}\n{self._last_words()}")
        return usage.ru_utime + usage.ru_stime

    def _signal(self, number: signal.Signals) -> None:
        """To every process of the run."""
        for pid in list(_family(self._process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _last_words(self) -> str:
        errors = [*self._folder.rglob("error.log"), *self._folder.rglob("debug.log")]
        texts = {str(path): path.read_text(errors="replace")[-3000:] for path in (self._output, *errors)}
        return "\n".join(f"--- the end of {path}:\n{text}" for path, text in texts.items() if text.strip())


def take_turns(first: Training, second: Training, steps: int) -> None:
    """Run both to their ends, a few steps of one and then of the other.

    Raises:
        Failed: one ended with an error.
    """
    second.stop()
    alive = {first, second}
    for until in range(TURN, steps + TURN, TURN):
        for training in (first, second):
            if training in alive and training.go(until):
                training.stop()
            else:
                alive.discard(training)
    for training in alive:
        while training.go(steps + 1):
            pass


def _family(first: int) -> Iterator[int]:
    """A process and all that come from it: torchrun gives each rank a session of its own."""
    parents = {int(entry): _parent(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()}
    found = [first]
    for pid in found:
        yield pid
        found += [child for child, parent in parents.items() if parent == pid]


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _cpu_seconds(pid: int) -> float:
    """Of a process and of its children that have ended."""
    return sum(map(int, _stat(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """What the kernel tells of a process, from its state on; nothing of one that has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
