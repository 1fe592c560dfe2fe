"""The job script of ``primus slurm sbatch``, and what is done with the job later."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

from attrs import evolve

from primus_core.errors import ConfigError
from primus_core.plan import Job, Process, Submission

SCRIPT = "job.sh"
_HANDLE = r"^(\d+)(?:;\S*)?$"
"""What ``sbatch --parsable`` prints: the number of the job, and of several clusters the name of one."""
_UNPLAIN = re.compile(r"[^\w@%+=:,./\[\]{}*~^-]")
_CHAIN = re.compile(r"--array=.*%1$")
_OUTPUT = ("--output=", "-o")
_CHDIR = "--chdir="
_FILES = ("--output=", "--error=", "--input=")


def batch_submission(job: Job, flags: Sequence[str]) -> Submission:
    """Hand a script to Slurm, which starts ``primus start PLAN`` on the first node when the nodes are free.

    Args:
        flags: of sbatch, each one word.

    Raises:
        ConfigError: flags that no script can hold, or an array whose tasks would train in one folder at once.
    """
    _refuse(flags)
    words = [*_defaults(job, flags), *_from_here(job.workdir, flags)]
    argv = ("sbatch", "--parsable", *words, f"{job.run_dir}/submission/{SCRIPT}")
    submission = Submission(
        processes=(Process(argv=argv),),
        files={SCRIPT: job_script(job, words)},
        detached=True,
        handle_pattern=_HANDLE,
    )
    return with_commands(submission, job)


def with_commands(submission: Submission, job: Job) -> Submission:
    """The submission, with the commands by which its job is asked after, ended and queued again."""
    jobs = (job.python, "-m", "primus_launchers.slurm.jobs")
    return evolve(
        submission,
        status_argv=(*jobs, "status", "{handle}"),
        cancel_argv=("scancel", "{handle}"),
        requeue_argv=(*jobs, "requeue", "{handle}"),
    )


def job_script(job: Job, flags: Sequence[str]) -> str:
    """A script with absolute paths alone: it may be started from any folder, and Slurm may copy it to another."""
    start = shlex.join([job.python, "-m", "primus_core.cli.main", "start", job.argv[-1]])
    return "\n".join(
        [
            "#!/bin/bash",
            *(f"#SBATCH {_quoted(flag)}" for flag in flags),
            "",
            f"# Run {job.run_id}: everything else is in its plan, which was checked before it was submitted.",
            f"cd {shlex.quote(job.workdir or '/')} || exit 1",
            f'exec {start} --handle "${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}" --starts "${{SLURM_RESTART_COUNT:-0}}"',
            "",
        ]
    )


def _defaults(job: Job, flags: Sequence[str]) -> list[str]:
    """What is set where the user says nothing: what a job prints is kept with its run, over all its starts."""
    name = re.sub(r"\s+", "-", job.name) or "primus"
    known = {
        f"--job-name={name}": ("--job-name=", "-J"),
        f"--output={_unpatterned(job.run_dir)}/submission/slurm-%j.out": _OUTPUT,
        "--open-mode=append": ("--open-mode=",),
    }
    return [flag for flag, spellings in known.items() if not any(one.startswith(spellings) for one in flags)]


def _from_here(workdir: str, flags: Sequence[str]) -> list[str]:
    """The flags, with the paths of files from the folder that the user was in: the script is for any other too."""
    chdir = next((flag.removeprefix(_CHDIR) for flag in reversed(flags) if flag.startswith(_CHDIR)), "")
    folder = os.path.join(workdir, chdir)
    return [_absolute(folder, flag) for flag in flags] if os.path.isabs(folder) else list(flags)


def _absolute(folder: str, flag: str) -> str:
    """One flag; with a backslash in it Slurm takes a path as it is, so that no folder can be put before it."""
    name, equals, path = flag.partition("=")
    if name + equals == _CHDIR:
        return f"{_CHDIR}{folder}"
    if name + equals not in _FILES or not path or os.path.isabs(path) or "\\" in path:
        return flag
    return f"{name}={os.path.join(_unpatterned(folder), path)}"


def _unpatterned(path: str) -> str:
    """A percent sign of a path is none of sbatch's own."""
    return path.replace("%", "%%")


def _refuse(flags: Sequence[str]) -> None:
    for flag in flags:
        if "\n" in flag:
            raise ConfigError(
                f"a flag of sbatch has a line break: {flag!r}",
                why="a line #SBATCH of a job script holds one line",
                remedy="write it without",
            )
        if flag.startswith(("--array", "-a")) and not _CHAIN.match(flag):
            raise ConfigError(
                f"{flag}: the tasks of this array would run at once",
                why="they are the same run: one after the other each goes on where the last one ended; at once they "
                "would write the same checkpoints",
                remedy=f"{flag}%1 makes a chain; for different runs submit one job for each, with exp_name=NAME",
            )


def _quoted(flag: str) -> str:
    """A word as sbatch reads it from a script: quotes hold blanks, and a backslash the sign behind it."""
    if not _UNPLAIN.search(flag):
        return flag
    inner = flag.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'
