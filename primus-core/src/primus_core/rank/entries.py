"""Finding and calling the entry of a task."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from primus_core.contract import RankContext
from primus_core.errors import DependencyError, RunError
from primus_core.plan import RunPlan

Entry: TypeAlias = Callable[[RunPlan, RankContext], Mapping[str, object]]


def find_entry(name: str) -> Entry:
    """Import ``module:function``.

    Raises:
        DependencyError: the module or the function is missing. An exception of the module's own code is not changed.
    """
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ModuleNotFoundError as error:
        raise DependencyError(
            f"{name} cannot be imported",
            why=str(error),
            remedy="Install what is missing in the ranks' environment.",
        ) from error
    if not callable(found):
        raise DependencyError(
            f"{module} has no function {function!r}", remedy="Install the version that made the plan."
        )
    return cast("Entry", found)


def call(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Run the plan's task; returns its result.

    Raises:
        RunError: the entry returned something else than a map.
    """
    result = find_entry(plan.task.entry)(plan, rank)
    if not isinstance(result, Mapping):
        raise RunError(f"{plan.task.entry} returned {type(result).__name__}, not a map")
    return result
