"""Starting a run that failed again in place: the same plan, new processes, the checkpoints that the run wrote.

It is a loop around the launcher's processes and not torchrun's own restart. That needs an agent on every node that
still lives and an elastic rendezvous, sends the survivors the signal that else means: save and stop, and is there for
torchrun alone. A new start of everything works with every launcher, also when a launcher itself died, and each start
has its own reports.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import evolve, frozen

from primus_core import report
from primus_core.errors import ExitCode
from primus_core.failuremark import NAME as FAILED
from primus_core.files import write_atomic
from primus_core.log.console import topic_line
from primus_core.outcome import Problem, RunReport
from primus_core.plan import RunPlan
from primus_core.rundir import RunDir

ATTEMPT = "PRIMUS_ATTEMPT"
"""Tells the ranks which start of their run this is; from the second on they go on from what the run itself saved."""
REQUEUE = "requeue.json"
"""In the run directory: the run was stopped by a signal and asks to be started again."""
_BEGUN = "attempt"
"""In ``submission/``: the number of the last start that began."""


@frozen(kw_only=True)
class Start:
    """One start of a run."""

    attempt: int
    """Its number, from 1, over all starts of the run."""
    restarts: int
    """How many of them were restarts in place since the user or a scheduler started it."""


def forget(rundir: RunDir) -> None:
    """Remove what an earlier start of a run with the same name left."""
    (rundir.path / REQUEUE).unlink(missing_ok=True)
    for file in sorted(report.attempts_folder(rundir).glob("*/*")):
        file.unlink()


def environment(attempt: int, env: Mapping[str, str]) -> Mapping[str, str]:
    """What the processes of one start inherit."""
    return {**env, ATTEMPT: str(attempt)}


def is_due(ended: RunReport, plan: RunPlan, start: Start) -> bool:
    """Whether a run that ended is to be started again: what is wrong with a configuration stays wrong."""
    allowed = plan.settings.values.get("max_restarts")
    return ended.exit_code == ExitCode.RUNTIME and isinstance(allowed, int) and start.restarts < allowed


def begin(rundir: RunDir, failed: RunReport, plan: RunPlan, start: Start, say: Callable[[str], None]) -> None:
    """Put the reports of the start that failed aside, and say what happened.

    Raises:
        OSError: the run directory is not writable.
    """
    for line in report.screen(failed, plan).splitlines():
        say(line)
    folder = _put_aside(rundir, failed.attempt)
    say(topic_line("restart", f"{start.restarts + 1} of {plan.settings.values.get('max_restarts')}; reports: {folder}"))


def resume(rundir: RunDir, plan: RunPlan) -> int:
    """Put aside what the last start of a run left that a scheduler starts again.

    Returns:
        The number of the start that begins now.

    Raises:
        OSError: the run directory is not writable.
        ConfigError: a report is damaged.
    """
    earlier = max((one.attempt for one in report.attempts(rundir)), default=0)
    (rundir.path / REQUEUE).unlink(missing_ok=True)
    last = report.read(rundir)
    if last is None and _last_begun(rundir) > earlier:
        last = _cut_short(rundir, plan, earlier + 1)
    if last is None:
        return earlier + 1
    report.write(rundir, last)
    _put_aside(rundir, last.attempt)
    return last.attempt + 1


def mark_begun(rundir: RunDir, attempt: int) -> None:
    """Leave the number of a start where its host may be lost without a word.

    Raises:
        OSError: the run directory is not writable.
    """
    write_atomic(rundir.submission / _BEGUN, f"{attempt}\n")


def _last_begun(rundir: RunDir) -> int:
    try:
        return int((rundir.submission / _BEGUN).read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0


def _cut_short(rundir: RunDir, plan: RunPlan, attempt: int) -> RunReport:
    """The report of a start whose leading process was lost before it could write one."""
    merged = report.merge(rundir, plan.target.world_size)
    lost = Problem(
        what=f"start {attempt} of the run was cut short",
        where="",
        why="the host that led it was lost, or the scheduler killed it: it left no report",
        remedy="",
    )
    return evolve(merged, attempt=attempt, exit_code=ExitCode.RUNTIME, launcher_problems=(lost,))


def _put_aside(rundir: RunDir, attempt: int) -> Path:
    """Move the reports of one start to a folder of their own, and take its mark of a failure away."""
    folder = report.attempts_folder(rundir) / str(attempt)
    folder.mkdir(parents=True, exist_ok=True)
    for file in (rundir.report, *rundir.ranks.glob("rank-*")):
        if file.exists():
            file.replace(folder / file.name)
    (rundir.ranks / FAILED).unlink(missing_ok=True)
    return folder


def ask_again(rundir: RunDir, stopped: RunReport) -> None:
    """Leave the marker of a run that was stopped before a rank could.

    Raises:
        OSError: the run directory is not writable.
    """
    path = Path(rundir.path / REQUEUE)
    if stopped.stopped is not None and not path.exists():
        told = {"run_id": stopped.run_id, "signal": stopped.stopped, "iteration": None, "checkpoint": None}
        write_atomic(path, json.dumps({**told, "time": time.time()}, indent=1) + "\n")
