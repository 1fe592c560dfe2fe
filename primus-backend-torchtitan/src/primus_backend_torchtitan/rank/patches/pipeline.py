"""Pipeline schedules that take micro batches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def step_over_micro_batches(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory for a schedule's `step`: given lists of micro batches it runs them as they are.

    Rank by rank some lists are absent: only the first stage has inputs, only the last has targets.
    """

    @functools.wraps(original)
    def step(
        schedule: Any,
        *args: Any,
        arg_mbs: list[Any] | None = None,
        kwarg_mbs: list[Any] | None = None,
        target_mbs: list[Any] | None = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        shared = {"losses": losses, "return_outputs": return_outputs, "loss_kwargs": loss_kwargs}
        if arg_mbs is None and kwarg_mbs is None and target_mbs is None:
            return original(schedule, *args, **shared, **options)
        _begin(schedule)
        count = schedule._n_microbatches
        arguments, keywords = arg_mbs or [()] * count, kwarg_mbs or [{} for _ in range(count)]
        return schedule._step_microbatches(arguments, keywords, target_mbs, **shared)

    return step


def _begin(schedule: Any) -> None:
    """What `step` does before its first micro batch."""
    for stage in getattr(schedule, "_stages", None) or [schedule._stage]:
        stage.has_backward = schedule._has_backward
        stage.clear_runtime_states()
