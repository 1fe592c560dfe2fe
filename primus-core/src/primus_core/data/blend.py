"""Samples of several token files, mixed by weight as Megatron's BlendedDataset mixes them."""

from __future__ import annotations

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
        return cls._drawn(normalised(weights), [size] * len(weights), size)

    @classmethod
    def exhausting(cls, sizes: Sequence[int]) -> Mix:
        """Every sample of every part, in proportion to their numbers."""
        total = sum(sizes)
        return cls._drawn([size / total for size in sizes], sizes, total)

    @classmethod
    def _drawn(cls, shares: Sequence[float], limits: Sequence[int], size: int) -> Mix:
        parts: NDArray[Any] = np.zeros(size, dtype=np.int16)
        samples: NDArray[Any] = np.zeros(size, dtype=np.int64)
        drawn = [0] * len(shares)
        left = [number for number, limit in enumerate(limits) if limit]
        for step in range(size):
            # Multiplied and subtracted in this order: ties are decided by the last bit.
            time = float(max(step, 1))
            behind = [shares[number] * time - drawn[number] for number in left]
            number = left[behind.index(max(behind))]
            parts[step], samples[step] = number, drawn[number]
            drawn[number] += 1
            if drawn[number] == limits[number]:
                left.remove(number)
        return cls(parts=parts, samples=samples)


def normalised(weights: Sequence[float]) -> list[float]:
    """Weights that add up to 1, in numpy's rounding, which decides ties of a blend."""
    array = np.array(weights, dtype=np.float64)
    shares: list[float] = (array / array.sum()).tolist()
    return shares
