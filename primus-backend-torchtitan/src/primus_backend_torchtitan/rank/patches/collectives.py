"""What torch 2.13 and gloo lack of the collectives that TorchTitan calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any


def set_timeout(original: None) -> Callable[..., None]:
    """Factory: the public name of what torch 2.13 has under a private one."""
    from torch.distributed.distributed_c10d import _set_pg_timeout

    def set_timeout(timeout: timedelta, group: Any = None) -> None:
        _set_pg_timeout(timeout, group)

    return set_timeout


def set_gradient_divide_factor(original: Callable[..., None]) -> Callable[..., None]:
    """Factory: FSDP2 divides before the collective, which is then a plain sum."""

    @functools.wraps(original)
    def set_factor(module: Any, factor: float) -> None:
        original(module, factor)
        module.set_force_sum_reduction_for_comms(True)

    return set_factor
