"""How a rank ended: its report, torchrun's error file and a word for the log."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Mapping
from typing import Any, NamedTuple

from primus_core.files import write_atomic
from primus_core.peers import lost_peer
from primus_core.rank.files import pretty
from primus_core.rank.planfile import Brief
from primus_core.rank.state import State

_FATAL = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")
_STACK_CHARACTERS = 8000
_ROOM = ".room"
_ROOM_BYTES = 1 << 16
"""More than a report takes with all that it may hold but its result."""


class Ending(NamedTuple):
    """The end of a child."""

    exit_code: int
    """As a shell reports it."""
    signal: str | None
    told_to_end: str | None
    """The signal that asked it to end before it ended."""
    started: float
    ended: float
    """Seconds since the epoch."""
    peak_bytes: int
    stack: str
    """What faulthandler wrote when the child crashed."""
    stopped: str | None = None
    """The signal for which it ended in good order before its work was done."""

    def failure(self, state: State) -> Mapping[str, Any] | None:
        """The exception, or the crash as if it were one."""
        if state.failure is None and self.signal in _FATAL:
            text = self.stack.partition("\n")[0] or f"killed by {self.signal}"
            told = {"type": str(self.signal), "text": text, "traceback": self.stack, "problems": []}
            return {**told, "at": _innermost(self.stack), "chain": []}
        return state.failure

    def describe(self, state: State) -> str:
        """One sentence on an end that is no success."""
        failure = self.failure(state)
        if failure is not None:
            return f"{failure['type']}: {failure['text']}"
        how = f"killed by {self.signal}" if self.signal else f"ended with exit code {self.exit_code}"
        if self.signal == "SIGKILL" and state.memory.ran_out:
            how = f"{how} because memory ran out"
        return f"{how} in {state.where}"


def ending_of(
    status: int,
    *,
    told_to_end: str | None,
    started: float,
    ended: float,
    peak_bytes: int,
    stack: str,
    stopped: str | None = None,
) -> Ending:
    """From the status that ``wait`` gives."""
    killed = os.WIFSIGNALED(status)
    number = os.WTERMSIG(status) if killed else 0
    return Ending(
        exit_code=128 + number if killed else os.WEXITSTATUS(status),
        signal=_name(number) if killed else None,
        told_to_end=told_to_end,
        started=started,
        ended=ended,
        peak_bytes=peak_bytes,
        stack=stack[-_STACK_CHARACTERS:],
        stopped=stopped,
    )


def write_report(brief: Brief, host: str, state: State, ending: Ending) -> None:
    """Write `primus_core.outcome.RankReport` as `primus_core.codec` reads it."""
    report = {
        "run_id": brief.run_id,
        "rank": brief.rank,
        "host": host,
        "phase": state.phase,
        "iteration": state.iteration,
        "exit_code": ending.exit_code,
        "signal": ending.signal,
        "signalled_first": ending.told_to_end is not None,
        "stopped": ending.stopped,
        "failure": ending.failure(state),
        "started": ending.started,
        "ended": ending.ended,
        "peak_memory_bytes": ending.peak_bytes,
        "peak_device_memory_bytes": None if brief.on_cpu else state.device_memory,
        "memory_limit_bytes": state.memory.limit,
        "out_of_memory": state.memory.ran_out,
        "versions": state.versions,
        "last_lines": state.last_lines,
        "patches": {"results": state.patches},
        "result": state.result,
        "stall": state.stall,
        "stragglers": state.stragglers,
    }
    _release(brief)
    with contextlib.suppress(OSError):  # the disk is full all the same: what was written of it before stands
        write_atomic(brief.rank_file(".json"), brief.redact(pretty(report)))


def reserve_room(brief: Brief) -> None:
    """Hold the room that the report will take, for a disk that is full by then.

    Raises:
        OSError: there is none even now.
    """
    write_atomic(brief.rank_file(_ROOM), b"\0" * _ROOM_BYTES)


def _release(brief: Brief) -> None:
    with contextlib.suppress(OSError):
        os.unlink(brief.rank_file(_ROOM))


def write_torchrun_error(path: str, brief: Brief, state: State, ending: Ending) -> None:
    """Tell torchrun how the rank failed, unless the library already did.

    torchrun takes the smallest whole second for the root cause. A rank that lost its peer, or was told to end, failed
    in consequence: it gets a second more.
    """
    if os.path.exists(path):
        return
    what = ending.describe(state)
    failure = ending.failure(state)
    explained = failure is not None and failure["problems"]
    consequence = ending.told_to_end is not None or (lost_peer(what) and not explained)
    trace = failure["traceback"] if failure else "\n".join([what, *state.last_lines[-8:]])
    info = {
        "py_callstack": f"{trace}\nreport: {brief.rank_file('.json')}",
        "timestamp": str(int(ending.ended) + consequence),
    }
    message: dict[str, Any] = {"message": {"message": what, "extraInfo": info}}
    write_atomic(path, brief.redact(pretty(message)))


def _innermost(stack: str) -> str:
    """``file:line in function`` of the first frame that faulthandler wrote of the thread that crashed."""
    current = stack.partition("Current thread")[2]
    frame = re.search(r'File "([^"]+)", line (\d+) in (\S+)', current)
    return f"{frame[1]}:{frame[2]} in {frame[3]}" if frame else ""


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
