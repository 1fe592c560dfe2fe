"""The median, without the half of the standard library that `statistics` imports: a look at a host costs little."""

from __future__ import annotations

from collections.abc import Iterable


def median(values: Iterable[float]) -> float:
    """The value in the middle, or half-way between the two there; at least one is needed."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
