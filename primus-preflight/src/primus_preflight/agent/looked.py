"""What looks at a node are given: its files, its environment, and a way to ask a program."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from attrs import field

from primus_core import linux
from primus_core.plan import RunPlan
from primus_core.records import frozen
from primus_preflight.agent.probing import Unavailable

_SHOWN = 300
"""Characters of what a program says of its failure."""


class ProgramError(Exception):
    """A program did not do what it was asked for. The text says how it ended, and what it said."""


def run_program(argv: Sequence[str], seconds: float) -> str:
    """What a program prints, in plain English.

    Args:
        seconds: time limit; it is killed then.

    Raises:
        Unavailable: there is no such program.
        ProgramError: it failed, or was too slow.
    """
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
            text=True,
            errors="replace",
            preexec_fn=partial(linux.die_with_parent, signal.SIGKILL),
        )
    except (FileNotFoundError, PermissionError):
        raise Unavailable(f"the program {argv[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ProgramError(f"{argv[0]}: no answer within {seconds:g} s") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-_SHOWN:]
        raise ProgramError(f"{' '.join(argv)}: ended with {done.returncode}: {said}")
    return done.stdout


@frozen(kw_only=True)
class Looked:
    """The node that is looked at."""

    plan: RunPlan
    env: Mapping[str, str] = field(factory=dict)
    """The environment of the agent, which ranks of a training would have too."""
    root: Path = Path("/")
    """Folder that has ``proc``, ``sys`` and ``dev``; tests give a recorded one."""
    run: Callable[[Sequence[str], float], str] = run_program
    """Asks a program; see `run_program`."""
