"""Figures of one test of one size, compared with the best of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from attrs import field

from primus_core.records import frozen
from primus_preflight.judging.limits import Limits
from primus_preflight.judging.middle import median
from primus_preflight.judging.report import Verdict
from primus_preflight.model import Measurement

_BEST = 0.9
"""Of more than ten figures, the best is what a tenth of them reaches: of thousands, the very best is luck."""
_NOISE = {"warning": 1.5, "failure": 3.0}
"""A figure has to be worse by so many times the scatter of repetitions."""
_MOST_NOISE = {"warning": 0.4, "failure": 0.6}
"""However noisy a machine is, what is worse by these parts counts."""


@frozen
class Figure:
    """One measurement that gave values; more is better."""

    measurement: Measurement
    value: float = field(init=False)
    """Median of the repetitions."""

    @value.default
    def _median(self) -> float:
        return median(self.measurement.values)

    @property
    def scatter(self) -> float:
        """Half of the range of the repetitions, as a part of their median."""
        values = self.measurement.values
        return (max(values) - min(values)) / 2 / self.value if self.value > 0 and len(values) > 2 else 0.0


@frozen(kw_only=True)
class Peers:
    """What the figures of comparable measurements have in common."""

    best: float
    scatter: float
    """Of the repetitions, in the middle of the peers."""

    @classmethod
    def of(cls, figures: Sequence[Figure]) -> Peers:
        """At least one figure is needed."""
        ordered = sorted(one.value for one in figures)
        best = ordered[math.ceil(_BEST * (len(ordered) - 1))]
        return cls(best=best, scatter=median(one.scatter for one in figures))

    def level(self, figure: Figure, limits: Limits) -> Verdict:
        """What a figure is worth beside the others."""
        return judged(figure, self.best, limits, self.scatter)

    def told(self, figure: Figure) -> str:
        """The figure and what it is compared to."""
        return compared(figure, self.best, "the best")


def judged(figure: Figure, reference: float, limits: Limits, scatter: float = 0.0) -> Verdict:
    """A failure needs all repetitions to be worse than the limit: one good repetition shows that the part works."""
    if reference <= 0:
        return "pass"
    short = 1 - figure.value / reference
    always = 1 - max(figure.measurement.values) / reference
    if short > _limit("failure", limits.failure, scatter) and always > limits.failure:
        return "failure"
    return "warning" if short > _limit("warning", limits.warning, scatter) else "pass"


def compared(figure: Figure, reference: float, name: str) -> str:
    """``gemm 512 MiB: 61.2 of 100 TFLOP/s, 61 % of the best``."""
    one = figure.measurement
    share = f"{100 * figure.value / reference:.0f} % of {name}"
    return f"{figure.value:.4g} of {reference:.4g} {one.unit}, {share}"


def figures_of(measurements: Iterable[Measurement]) -> list[Figure]:
    """Those that gave values; a test that was repeated on the same nodes counts as it was at its best."""
    best: dict[tuple[object, ...], Figure] = {}
    for one in measurements:
        if one.status != "ok" or not one.values:
            continue
        key = (one.test, one.size_bytes, one.dtype, one.ranks, one.nodes, one.device)
        figure = Figure(one)
        if key not in best or best[key].value < figure.value:
            best[key] = figure
    return list(best.values())


def _limit(level: str, limit: float, scatter: float) -> float:
    return max(limit, min(_MOST_NOISE[level], _NOISE[level] * scatter))
