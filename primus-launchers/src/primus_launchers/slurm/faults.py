"""What Slurm says when a job cannot be made or is lost, in words that tell what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from primus_core.errors import ConfigError, DependencyError, ExitCode, PrimusError, RunError
from primus_launchers.faulttable import Fault, read_faults

_SHOWN = 6
_LIMITS = ("time-limit", "preempted", "memory")
"""Rows of what Slurm ends jobs for, whatever their ranks do."""
_QUEUED = re.compile(r"srun: job (\d+) queued and waiting for resources")
_NOISE = re.compile(
    r"(job \d+ (queued and waiting|has been allocated)|Try \"srun|Waiting up to \d+|_step_signal|configuration not "
    r"available now|Job step aborted|Force Terminated)"
)
_LOSS = re.compile(r"error: (\S+: tasks? [\d,-]+: |Node failure on )")
_HEAD = re.compile(r"^(srun|slurmstepd[\w.-]*|slurmd[\w.-]*): (error: |fatal: )?")
_ERRORS = {kind.exit_code: kind for kind in (ConfigError, DependencyError, RunError)}


def known_faults() -> tuple[Fault, ...]:
    """What Slurm says."""
    return read_faults("primus_launchers.slurm")


def notice(line: str) -> str:
    """What to tell the user of a line at once; empty for most."""
    found = _QUEUED.search(line)
    return f"job {found[1]} waits for its nodes" if found else ""


def unstarted(status: int, said: Sequence[str]) -> PrimusError:
    """The error of a job in which no rank ever ran.

    Args:
        status: of srun.
        said: what Slurm wrote.
    """
    return _known(said) or RunError(
        "Slurm started no ranks",
        why=_shown(said) or f"srun ended with status {status} and no word",
        remedy="see whether `srun -N 1 true` works with the same options",
    )


def lost(hosts: Sequence[str], status: int, said: Sequence[str]) -> PrimusError:
    """The error of a job that Slurm ended, or of nodes that are gone, while the ranks ran."""
    names = ", ".join(hosts[:_SHOWN]) + (f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else "")
    return _known(said) or RunError(
        f"{names} {'is' if len(hosts) == 1 else 'are'} lost",
        why=_shown(said) or f"srun ended with status {status} and no word",
        remedy="see whether the nodes are up (`sinfo -R`); auto_continue_train=true goes on from the last checkpoint",
    )


def limit_reached(said: Sequence[str]) -> PrimusError | None:
    """The error of a job whose ranks Slurm ended, each of which then tells of a signal alone."""
    reasons = [line for line in said if any(row.id in _LIMITS and row.found_in(line) for row in known_faults())]
    return _known(reasons)


def not_installed(program: str, error: PrimusError) -> PrimusError:
    return DependencyError(
        f"{program} cannot be started on this host",
        why=error.why,
        remedy="run this on a login node of the cluster, or load Slurm's module there",
    )


def tells_of_loss(line: str) -> bool:
    """Whether a line says that the program on a node has ended, or the node with it."""
    return _LOSS.search(line) is not None


def _known(said: Sequence[str]) -> PrimusError | None:
    """By the first line that says something: what comes later are its consequences."""
    for line in said:
        for fault in known_faults():
            if fault.found_in(line):
                return _ERRORS[ExitCode(fault.exit_code)](fault.what, why=_shown(said), remedy=fault.remedy)
    return None


def _shown(said: Sequence[str]) -> str:
    """The last lines that explain something, without the program's name, each once."""
    lines = [_HEAD.sub("", line) for line in said if line.strip() and not _NOISE.search(line)]
    return "\n".join(list(dict.fromkeys(lines))[-_SHOWN:])
