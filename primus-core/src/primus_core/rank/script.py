"""The task of a user's own Python program."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Mapping

from primus_core.contract import RankContext
from primus_core.errors import DependencyError
from primus_core.experiment import Value
from primus_core.plan import RunPlan


def run(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Run the program as ``python PROGRAM ARGUMENTS`` would: its name, its arguments, its folder first on the path.

    Raises:
        DependencyError: this node has no such file.
        BaseException: what the program raises, ``SystemExit`` included.
    """
    arguments = plan.task.arguments
    path, words = _text(arguments["path"]), arguments["argv"]
    if not os.path.isfile(path):
        remedy = "keep it on a file system that every node sees"
        raise DependencyError("the script is not on this node", where=path, remedy=remedy)
    sys.argv = [path, *map(_text, words if isinstance(words, list) else [])]
    if sys.path[:1] == [os.getcwd()]:  # `python -m` put it there, `python PROGRAM` would not
        del sys.path[0]
    sys.path.insert(0, os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")
    return {}


def _text(word: Value) -> str:
    return os.fsdecode(bytes.fromhex(str(word["bytes"]))) if isinstance(word, dict) else str(word)
