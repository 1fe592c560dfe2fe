"""A run that is handed to a scheduler: what the user is told of it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from primus_core import report, submit
from primus_core.cli.finding import short_name
from primus_core.cli.output import complain, say
from primus_core.cli.prepare import Prepared
from primus_core.errors import ExitCode, RunError
from primus_core.files import write_atomic
from primus_core.log.console import topic_line
from primus_core.plan import RunPlan, Submission
from primus_core.rundir import RunDir
from primus_core.submit.files import write_files
from primus_core.submit.handle import Handle

_SCRIPT = "output_script"


def hand_over_plan(prepared: Prepared, *, silent: bool) -> int:
    """Submit a run whose plan is written and told, and tell how it is followed; returns the exit code.

    Where the scheduler's command waits for the run, so does this, and tells what came of it. Where the user asked for
    the job script alone (``output_script`` of the launcher's section), that is written and nothing submitted.
    """
    submission, plan, env = prepared.submission, prepared.plan, prepared.env
    if isinstance(path := plan.job.options.get(_SCRIPT), str):
        return _script_alone(prepared, path)
    rundir = RunDir(Path(plan.run_dir))
    handles: list[Handle] = []

    def known(handle: Handle) -> None:
        handles.append(handle)
        _tell(plan, env, handle)

    try:
        status = submit.hand_over(
            submission,
            plan,
            env=env,
            on_handle=known,
            warn=lambda text: complain(f"warning: {text}\n", env),
        )
    except KeyboardInterrupt:
        if handles:
            name = short_name(rundir.path, env)
            say(topic_line("interrupted", f"job {handles[0].handle} goes on; `primus cancel {name}` ends it"))
        raise
    ended = report.read(rundir)
    if ended is None:
        return ExitCode.OK if status == 0 else _unreported(handles[0], status, plan, env)
    text = report.screen(ended, plan)
    if silent and status:
        complain(f"{text}\n", env)
    else:
        say(text)
    return ended.exit_code or status


def _script_alone(prepared: Prepared, path: str) -> int:
    submission = prepared.submission
    write_script(submission, prepared.plan, path)
    needed = [topic_line("export", f"{name}, before you submit it") for name in prepared.asked_secrets]
    script = topic_line("script", f"{path}; `{_command(submission)} {shlex.quote(path)}` submits it")
    say("\n".join([*needed, script]))
    return ExitCode.OK


def _command(submission: Submission) -> str:
    return os.path.basename(submission.processes[0].argv[0])


def _tell(plan: RunPlan, env: Mapping[str, str], handle: Handle) -> None:
    name = short_name(Path(plan.run_dir), env)
    follow = f"primus status {name}, primus logs {name} --follow, primus cancel {name}"
    say("\n".join([topic_line("job", handle.handle), topic_line("follow", follow)]))


def _unreported(handle: Handle, status: int, plan: RunPlan, env: Mapping[str, str]) -> int:
    where = RunDir(Path(plan.run_dir)).submission
    name = short_name(Path(plan.run_dir), env)
    complain(
        f"error: job {handle.handle} ended with {status}, and no rank left a report\n"
        f"  in:  {where}\n"
        f"  try: `primus status {name}`, and what the job printed there\n",
        env,
    )
    return status if 0 < status < 256 else ExitCode.RUNTIME


def write_script(submission: Submission, plan: RunPlan, path: str) -> None:
    """Write a submission's script to a place that the user names, instead of submitting it.

    Raises:
        RunError: it cannot be written.
    """
    rundir = RunDir(Path(plan.run_dir))
    write_files(rundir, submission)
    (script,) = submission.files.values()
    try:
        write_atomic(path, script)
        os.chmod(path, 0o755)  # noqa: S103 - a script that others may read, as its folder allows
    except OSError as error:
        raise RunError("cannot write the job script", where=path, why=error.strerror or str(error)) from None
