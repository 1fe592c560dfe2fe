"""The end of a training."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from primus_backend_torchtitan.rank.session import CURRENT


def train_and_meet(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """Factory: where rank 0 would sleep so that the others can end first, all ranks meet."""
    from torchtitan import trainer as library

    @functools.wraps(original)
    def train(trainer: Any) -> None:
        library.time = SimpleNamespace(**{**vars(time), "sleep": _no_sleep})
        try:
            original(trainer)
        finally:
            library.time = time
        _meet(trainer.device)

    return train


def continue_unless_stopped(original: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Factory: `should_continue_training`, which is false once a signal had the run saved."""

    @functools.wraps(original)
    def should_continue_training(trainer: Any) -> bool:
        session = CURRENT.get(None)
        return original(trainer) and not (session is not None and session.stops)

    return should_continue_training


def _no_sleep(seconds: float) -> None:
    """What rank 0 does in place of sleeping."""


def _meet(device: Any) -> None:
    """Returns when all ranks are here; a sum, since a barrier of NCCL would warn that it has to guess the device."""
    import torch
    from torch import distributed

    here = torch.zeros(1, device=device)
    distributed.all_reduce(here)
    here.item()
