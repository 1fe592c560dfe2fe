"""How far what projection says of a training step's peak may be from what was measured."""

from __future__ import annotations


def problem(projected: int, measured: int) -> str:
    """Empty where a projection is at most 2 % above what was measured, and at most 1 % below."""
    error = projected / measured - 1
    return "" if -0.01 <= error <= 0.02 else f"{projected} bytes are projected, {measured} measured: {error:+.2%}"
