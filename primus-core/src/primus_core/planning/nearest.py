"""Legal sizes near one that is not, for the remedy of a finding."""

from __future__ import annotations

from collections.abc import Callable


def nearest_sizes(wanted: int, most: int, legal: Callable[[int], bool]) -> str:
    """The legal sizes around one that is not, up to the largest that makes sense: ``2 or 4``."""
    below = next((size for size in range(min(wanted, most + 1) - 1, 0, -1) if legal(size)), None)
    above = next((size for size in range(wanted + 1, most + 1) if legal(size)), None)
    return " or ".join(str(size) for size in (below, above) if size is not None)


def nearest_divisors(number: int, wanted: int) -> str:
    """The divisors of a number around a size that is none."""
    return nearest_sizes(wanted, number, lambda size: number % size == 0)


def nearest_multiples(number: int, step: int) -> str:
    """The multiples of a step around a number that is none: ``4096 or 6144``."""
    below = number // step * step
    return " or ".join(str(size) for size in (below, below + step) if size > 0)
