"""The losses of evaluations, which Megatron only prints, on the console."""

from __future__ import annotations

import functools
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any

from primus_backend_megatron.rank.session import CURRENT

_LOSS = "lm loss"


def noted_evaluation(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory for `evaluate`: the same evaluation, whose loss every rank then knows."""

    @functools.wraps(original)
    def evaluate(*args: Any, **options: Any) -> Any:
        session = CURRENT.get(None)
        if session is not None:
            session.enter("evaluate")
        result = original(*args, **options)
        losses, _, out_of_time = result
        if session is not None and not out_of_time:
            session.evaluated.append(_of_last_rank(losses))
        return result

    return evaluate


def told_evaluation(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory for `evaluate_and_print_results`, which evaluates each data set in turn: one notice for each."""

    @functools.wraps(original)
    def evaluate_and_print_results(when: str, *rest: Any, **options: Any) -> Any:
        session = CURRENT.get(None)
        if session is None:
            return original(when, *rest, **options)
        session.evaluated.clear()
        result = original(when, *rest, **options)
        for name, loss in zip(_names(_args(), len(session.evaluated)), session.evaluated, strict=True):
            session.rank.notice("validation", f"loss {loss:#.4g} at {when}{name}")
        return result

    return evaluate_and_print_results


def _of_last_rank(losses: Mapping[str, Any]) -> float:
    """The loss, which only the ranks of the last pipeline stage have."""
    import torch
    from torch import distributed

    known = losses.get(_LOSS)
    shared = torch.zeros(1, device=torch.cuda.current_device())
    if known is not None:
        shared.fill_(known)
    distributed.broadcast(shared, src=distributed.get_world_size() - 1)
    return float(shared.item())


def _names(args: Namespace, count: int) -> list[str]:
    """What tells several validation sets apart; nothing where there is one."""
    if not args.multiple_validation_sets:
        return [""] * count
    return [f", {name}" for name in args.validation_set_names or range(count)][:count]


def _args() -> Namespace:
    from megatron.training import get_args

    args: Namespace = get_args()
    return args
