"""Handing a run to a scheduler, which starts it later."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from primus_core.errors import DependencyError
from primus_core.plan import RunPlan, Submission
from primus_core.rundir import RunDir
from primus_core.submit.child import run_child
from primus_core.submit.files import write_files
from primus_core.submit.handle import Handle, write_handle


def hand_over(
    submission: Submission,
    plan: RunPlan,
    *,
    env: Mapping[str, str],
    on_handle: Callable[[Handle], None],
    warn: Callable[[str], None],
) -> int:
    """Run the command that submits, and keep the scheduler's name for the run in ``submission/handle.json``.

    Args:
        env: what the command inherits, secrets included.
        on_handle: called as soon as the name is known; the command may go on, to wait for the run.
        warn: takes what the command complained of without failing.

    Returns:
        The status of the command: 0, or, where it waited, that of the run.

    Raises:
        DependencyError: the command is not there, or the scheduler refused the run.
        RunError: the run directory cannot be written.
    """
    rundir = RunDir(Path(plan.run_dir))
    process = submission.processes[0]
    found: list[Handle] = []

    def heard(line: str) -> None:
        match = re.search(submission.handle_pattern, line)
        if match and not found:
            found.append(Handle.of(match[1], submission, plan, time.time()))
            write_handle(rundir, found[0])
            on_handle(found[0])

    write_files(rundir, submission)
    ended = run_child(process, env, heard)
    said = ended.errors.strip()
    if not found:
        program = os.path.basename(process.argv[0])
        raise DependencyError(
            f"{program} did not take the run",
            why=said or f"it ended with {ended.status} and did not say why",
            remedy="correct what it complains of; nothing was submitted",
        )
    if said and ended.status == 0:
        warn(said)
    return ended.status
