"""What the launchers' own programs have in common: their words, and how they say what went wrong."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from primus_core.errors import PrimusError
from primus_core.log.events import encode
from primus_core.plan import Task


def runner_of(task: Task) -> str:
    """The module that starts a task's ranks on one node, and takes torchrun's options."""
    return f"primus_launchers.{task.runner}"


def parse_before(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """The options before the first ``--``; ``argv`` of the result are the words behind it."""
    words = list(argv)
    index = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:index])
    args.argv = words[index + 1 :]
    return args


def problems_event(errors: Sequence[PrimusError]) -> bytes:
    """What hindered a launcher, for the process that reads its events; the first error gives the exit code."""
    problems = [one.told() for one in errors]
    return encode({"kind": "launcher", "problems": problems, "exit_code": int(errors[0].exit_code)})
