"""The rank's parent process: sets up, forks, and supervises. Standard library only."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import MutableMapping, Sequence

from primus_core import linux
from primus_core.errors import ConfigError, PrimusError, RunError
from primus_core.failuremark import FailureMark
from primus_core.patience import Patience
from primus_core.rank import child, environment, signals
from primus_core.rank.channels import Channels
from primus_core.rank.ending import reserve_room
from primus_core.rank.files import LogFiles
from primus_core.rank.planfile import Brief, read_brief
from primus_core.rank.router import Router
from primus_core.rank.signals import Forwarder
from primus_core.rank.stacks import Stacks
from primus_core.rank.state import State
from primus_core.rank.supervisor import Supervisor
from primus_core.rank.terminal import Terminal
from primus_core.rank.watch import Subject
from primus_core.rank.watchdog import Watchdog
from primus_core.screens import problem_lines

_TORCHRUN_PATIENCE = 30.0
_SHARE = 2 / 3
_SHUTDOWN_SECONDS = 30.0
"""Less than the 300 s that torchrun waits for the other nodes at the end."""


def main(argv: Sequence[str], env: MutableMapping[str, str]) -> int:
    """Run one rank; returns its exit code, in the parent and in the child."""
    try:
        brief = _read(argv, env)
        stacks, files = _open_files(brief)
    except PrimusError as error:
        sys.stderr.write("".join(f"{line}\n" for line in problem_lines([error])))
        return error.exit_code
    mark = FailureMark(os.path.dirname(brief.rank_file("")))
    channels = Channels.open()
    signals.block()
    sys.stdout.flush()
    me = os.getpid()
    pid = os.fork()
    if pid == 0:
        files.close()
        return child.live(argv[1], channels, stacks, parent=me, stop=brief.patience.stop)
    return _supervise(brief, pid, channels, stacks, files, mark, env)


def _read(argv: Sequence[str], env: MutableMapping[str, str]) -> Brief:
    if len(argv) != 2:
        raise ConfigError("one argument is needed: the plan", remedy="python -m primus_core.rank PLAN")
    environment.complete(env)
    return read_brief(argv[1], env)


def _open_files(brief: Brief) -> tuple[Stacks, LogFiles]:
    """Open what the rank writes, and remove the report of an earlier start of the same run.

    Raises:
        RunError: the run directory is not writable.
    """
    report = brief.rank_file(".json")
    try:
        os.makedirs(os.path.dirname(report), exist_ok=True)
        if os.path.exists(report):
            os.unlink(report)
        reserve_room(brief)
        return Stacks(brief.rank_file(".stacks")), LogFiles(brief.log_folder, brief.file_level, brief.file_limits)
    except OSError as error:
        raise RunError(
            "the run's files cannot be written on this node",
            where=str(error.filename),
            why=error.strerror or str(error),
            remedy="Keep `workspace:` on a file system with space that every node may write to.",
        ) from None


def _supervise(
    brief: Brief,
    pid: int,
    channels: Channels,
    stacks: Stacks,
    files: LogFiles,
    mark: FailureMark,
    env: MutableMapping[str, str],
) -> int:
    _join_group(pid)
    channels.close_writers()
    linux.adopt_orphans()
    linux.die_with_parent(signals.LAUNCHER_DIED)
    terminal, state, host = Terminal(sys.stdout.fileno()), State(), socket.gethostname()
    router = Router(brief, host, files, terminal, state)
    forwarder = Forwarder(pid, _patience(brief, env), mark.is_set)
    folder = os.path.dirname(brief.rank_file(""))
    subject = Subject(brief.rank, brief.world_size, host, folder, pid, forwarder.handle, stacks)
    return Supervisor(
        brief,
        host=host,
        router=router,
        terminal=terminal,
        state=state,
        forwarder=forwarder,
        mark=mark,
        child=pid,
        channels=channels,
        stacks=stacks,
        watchdog=Watchdog(brief.watch, subject, state, router.record),
        error_file=env.get("TORCHELASTIC_ERROR_FILE"),
        shutdown=shutdown_seconds(env),
    ).run()


def _patience(brief: Brief, env: MutableMapping[str, str]) -> Patience:
    """With a grace period that is less than torchrun waits for us, so that there is time left for the report."""
    most = _seconds(env, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", _TORCHRUN_PATIENCE) * _SHARE
    return brief.patience._replace(grace=max(min(brief.patience.grace, most), 0.1))


def shutdown_seconds(env: MutableMapping[str, str]) -> float:
    """How long the process of a child whose work is done may take to end, from PRIMUS_SHUTDOWN_SECONDS."""
    return max(_seconds(env, "PRIMUS_SHUTDOWN_SECONDS", _SHUTDOWN_SECONDS), 0.1)


def _seconds(env: MutableMapping[str, str], name: str, default: float) -> float:
    try:
        return float(env.get(name, default))
    except ValueError:
        return default


def _join_group(pid: int) -> None:
    """Both sides make the child's group, so that it exists whoever runs first."""
    try:
        os.setpgid(pid, pid)
    except (PermissionError, ProcessLookupError):  # the child did it and executed a program, or has ended
        return
