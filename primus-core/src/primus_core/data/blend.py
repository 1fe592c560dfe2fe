"""Samples of several token files, mixed by weight as Megatron's BlendedDataset mixes them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from primus_core.data.samples import Sample, Samples
from primus_core.errors import RunError


class BlendedSamples:
    """At every step a sample of the part that is most behind its share.

    Args:
        parts: at most 32,767.
        weights: shares of the parts, each above 0.
        size: samples in all; None: every sample of every part once, in these proportions.

    Raises:
        RunError: a part has fewer samples than its share.
    """

    def __init__(self, parts: Sequence[Samples], weights: Sequence[float], size: int | None) -> None:
        self._parts = tuple(parts)
        self._mix = Mix.exhausting([len(part) for part in parts]) if size is None else Mix.of(weights, size)
        for number, part in enumerate(parts):
            drawn = int((self._mix.parts == number).sum())
            if drawn > len(part):
                raise RunError(
                    f"part {number + 1} of the blend has {len(part):,} samples, and {drawn:,} are drawn from it",
                    remedy="use fewer files, or more samples of them",
                )

    def __len__(self) -> int:
        return len(self._mix.parts)

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        return self._parts[int(self._mix.parts[index])][int(self._mix.samples[index])]


@frozen(kw_only=True, eq=False)
class Mix:
    """Which part each sample of a blend is drawn from, and its number there."""

    parts: NDArray[Any]
    """int16."""
    samples: NDArray[Any]
    """int64."""

    @classmethod
    def of(cls, weights: Sequence[float], size: int) -> Mix:
        """A number of samples by weights."""
        return cls._numbered(_drawn(normalised(weights), [size] * len(weights), size), len(weights))

    @classmethod
    def exhausting(cls, sizes: Sequence[int]) -> Mix:
        """Every sample of every part, in proportion to their numbers."""
        total = sum(sizes)
        return cls._numbered(_drawn([size / total for size in sizes], sizes, total), len(sizes))

    @classmethod
    def _numbered(cls, drawn: array[int], count: int) -> Mix:
        parts: NDArray[Any] = np.frombuffer(drawn, dtype=np.int16)
        samples: NDArray[Any] = np.zeros(len(parts), dtype=np.int64)
        for number in range(count):
            places = np.flatnonzero(parts == number)
            samples[places] = np.arange(len(places))
        return cls(parts=parts, samples=samples)


def _drawn(shares: Sequence[float], limits: Sequence[int], size: int) -> array[int]:
    """The part of each step: the one that is most behind its share and has samples left, the first of equals."""
    left = [share if limit else -math.inf for share, limit in zip(shares, limits, strict=True)]
    counts = [0.0] * len(left)
    parts = array("h")
    for step in range(size):
        time, most, chosen = float(step or 1), -math.inf, 0
        # A plain loop is three times as quick as max(): there may be millions of steps, and few parts.
        for number, share in enumerate(left):
            # Multiplied, then subtracted: the last bit of both decides ties.
            behind = share * time - counts[number]
            if behind > most:
                most, chosen = behind, number
        parts.append(chosen)
        counts[chosen] += 1
        if counts[chosen] == limits[chosen]:
            left[chosen] = -math.inf
    return parts


def normalised(weights: Sequence[float]) -> list[float]:
    """Weights that add up to 1, in numpy's rounding, which decides ties of a blend."""
    array = np.array(weights, dtype=np.float64)
    shares: list[float] = (array / array.sum()).tolist()
    return shares
