"""The rank's child process: from the fork to its exit code."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence

from primus_core import linux
from primus_core.errors import ExitCode, PrimusError
from primus_core.log.emitter import Emitter
from primus_core.rank import signals, streams
from primus_core.rank.channels import Channels
from primus_core.rank.raised import chain_of, raised_at
from primus_core.rank.stacks import Stacks

_ORPHANED = 125
_TRACEBACK_CHARACTERS = 16000


def live(plan_path: str, channels: Channels, stacks: Stacks, *, parent: int, stop: Sequence[int] = ()) -> int:
    """Everything the child does; returns the exit code of a rank that did its work.

    A rank that failed exits here and now: an interpreter that shuts down with broken communication may hang. What
    it started is ended by the parent.

    Args:
        stop: signals that end a process which has nothing to save yet.
    """
    _become(channels, stacks, parent, stop)
    emitter = Emitter(channels.events.write, address=f"/proc/{parent}/fd/{channels.events.read}")
    code = _guarded(plan_path, emitter)
    if code != 0:
        streams.flush()
        os._exit(code)
    emitter.emit({"kind": "phase", "name": "done"})
    return code


def _become(channels: Channels, stacks: Stacks, parent: int, stop: Sequence[int]) -> None:
    linux.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(_ORPHANED)
    os.setpgid(0, 0)  # launchers signal the parent's whole group: each signal would come twice
    streams.redirect(channels)
    stacks.arm()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # until the training code takes it: by default it would kill
    for number in stop:
        signal.signal(number, signal.SIG_DFL)
    signals.unblock()
    sys.argv = sys.argv[:1]  # libraries that parse the command line of their process find none
    os.environ["PYTHONUNBUFFERED"] = "1"  # for helper processes


def _guarded(plan_path: str, emitter: Emitter) -> int:
    try:
        from primus_core.rank import steps  # attrs, cattrs and plugins: an import that fails is reported like the rest

        steps.run(plan_path, emitter, os.environ)
    except SystemExit as leaving:
        return _exit_status(leaving)
    except KeyboardInterrupt:
        streams.flush()
        return _die_of(signal.SIGINT)
    except BaseException as error:  # noqa: BLE001  # the end of the rank: whatever it is becomes report and exit code
        _report(emitter, error)
        return error.exit_code if isinstance(error, PrimusError) else ExitCode.RUNTIME
    return ExitCode.OK


def _exit_status(leaving: SystemExit) -> int:
    """As the interpreter does it: None is success, a number itself, anything else is printed and means 1."""
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    sys.stderr.write(f"{leaving.code}\n")
    return 1


def _die_of(number: signal.Signals) -> int:
    """End as the signal's default would, so that the report says what happened."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def _report(emitter: Emitter, error: BaseException) -> None:
    trace = "".join(traceback.format_exception(error))
    problems = error.problems if isinstance(error, PrimusError) else ()
    for one in problems:
        values = {name: text for name, text in (("why", one.why), ("remedy", one.remedy)) if text}
        emitter.record("error", f"{type(one).__name__}: {one}", "primus", {**values, "traceback": trace})
    if not problems:
        emitter.record("error", f"{type(error).__name__}: {error}", "primus", {"traceback": trace})
    emitter.emit(
        {
            "kind": "failure",
            "type": type(error).__name__,
            "text": "\n".join(map(_explain, problems)) or str(error),
            "traceback": trace[-_TRACEBACK_CHARACTERS:],
            "problems": [one.told() for one in problems],
            "at": raised_at(error),
            "chain": chain_of(error),
        }
    )


def _explain(error: PrimusError) -> str:
    return "\n".join(part for part in (str(error), error.why, error.remedy) if part)
