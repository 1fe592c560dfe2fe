"""Patch of Megatron's decision to end: on a signal all ranks save and end after the same iteration."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from primus_backend_megatron.rank.session import CURRENT, Session


def stopping_decision(original: Callable[..., bool]) -> Callable[..., bool]:
    """Factory: `checkpoint_and_decide_exit`, which saves and says so where a signal asks for the end."""

    @functools.wraps(original)
    def checkpoint_and_decide_exit(
        model: Any, optimizer: Any, scheduler: Any, iteration: int, operations: Any, context: Any, data: Any
    ) -> bool:
        leaves = original(model, optimizer, scheduler, iteration, operations, context, data)
        session = CURRENT.get(None)
        if leaves or session is None or not _is_asked(session, iteration):
            return leaves
        if _args().save and session.saved != iteration:
            from megatron.training.training import save_checkpoint_and_time

            session.stops = True
            save_checkpoint_and_time(
                iteration, model, optimizer, scheduler, operations, context, train_data_iterator=data
            )
        return True

    return checkpoint_and_decide_exit


def _is_asked(session: Session, iteration: int) -> bool:
    from torch.distributed.distributed_c10d import _get_default_store

    if iteration >= (_args().train_iters or 0):
        return False
    return session.rank.should_stop(iteration, _get_default_store())


def _args() -> Any:
    from megatron.training import get_args

    return get_args()
