"""Charts of lines, as data. What draws them is `primus_core.render.drawing`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from primus_core.records import frozen

COLOURS = ("#2f7ed8", "#d9730d", "#2f9e63", "#a45ee5", "#e0455a", "#7d8590")
"""Of the series, in their order; each can be told from white and from black paper (contrast 3 and more)."""


@frozen
class Axis:
    """What an axis measures."""

    name: str
    unit: str = ""
    """Empty for a number without one."""

    def __str__(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name


@frozen(kw_only=True)
class Series:
    """One line, from left to right."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    """As many as there are ``x``; what is not finite leaves a gap."""


@frozen(kw_only=True)
class Chart:
    """Some series over the same axes."""

    name: str
    """Of its file, and of its elements in a page: lower-case letters and dashes."""
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]


def described(chart: Chart) -> str:
    """The chart in words, for who cannot see it: of each series, where it begins and ends, and its range."""
    lines = (f"{series.name}: {_course(series)}." for series in chart.series)
    return " ".join([f"{chart.title}: {chart.y} over {chart.x}.", *lines])


def _course(series: Series) -> str:
    points = [(x, y) for x, y in zip(series.x, series.y, strict=True) if math.isfinite(y)]
    if not points:
        return "no point"
    (first_x, first_y), (last_x, last_y) = points[0], points[-1]
    low, high = min(y for _, y in points), max(y for _, y in points)
    return f"{first_y:.4g} at {first_x:g}, {last_y:.4g} at {last_x:g}, between {low:.4g} and {high:.4g}"
