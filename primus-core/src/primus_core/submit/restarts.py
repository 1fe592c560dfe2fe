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

from primus_core import report
from primus_core.errors import ExitCode
from primus_core.failuremark import NAME as FAILED
from primus_core.files import write_atomic
from primus_core.log.console import topic_line
from primus_core.outcome import RunReport
from primus_core.plan import RunPlan
from primus_core.rundir import RunDir

ATTEMPT = "PRIMUS_ATTEMPT"
"""Tells the ranks which start of their run this is; from the second on they go on from what the run itself saved."""
REQUEUE = "requeue.json"
"""In the run directory: the run was stopped by a signal and asks to be started again."""


def forget(rundir: RunDir) -> None:
    """Remove what an earlier start of a run with the same name left."""
    (rundir.path / REQUEUE).unlink(missing_ok=True)
    for file in sorted(report.attempts_folder(rundir).glob("*/*")):
        file.unlink()


def environment(attempt: int, env: Mapping[str, str]) -> Mapping[str, str]:
    """What the processes of one start inherit."""
    return {**env, ATTEMPT: str(attempt)}


def is_due(ended: RunReport, plan: RunPlan, attempt: int) -> bool:
    """Whether a run that ended is to be started again: what is wrong with a configuration stays wrong."""
    allowed = plan.settings.values.get("max_restarts")
    return ended.exit_code == ExitCode.RUNTIME and isinstance(allowed, int) and attempt <= allowed


def begin(rundir: RunDir, failed: RunReport, plan: RunPlan, say: Callable[[str], None]) -> None:
    """Put the reports of the start that failed aside, and say what happened.

    Raises:
        OSError: the run directory is not writable.
    """
    for line in report.screen(failed, plan).splitlines():
        say(line)
    folder = report.attempts_folder(rundir) / str(failed.attempt)
    folder.mkdir(parents=True, exist_ok=True)
    for file in (rundir.report, *rundir.ranks.glob("rank-*")):
        if file.exists():
            file.replace(folder / file.name)
    (rundir.ranks / FAILED).unlink(missing_ok=True)
    say(topic_line("restart", f"{failed.attempt} of {plan.settings.values.get('max_restarts')}; reports: {folder}"))


def ask_again(rundir: RunDir, stopped: RunReport) -> None:
    """Leave the marker of a run that was stopped before a rank could.

    Raises:
        OSError: the run directory is not writable.
    """
    path = Path(rundir.path / REQUEUE)
    if stopped.stopped is not None and not path.exists():
        told = {"run_id": stopped.run_id, "signal": stopped.stopped, "iteration": None, "checkpoint": None}
        write_atomic(path, json.dumps({**told, "time": time.time()}, indent=1) + "\n")
