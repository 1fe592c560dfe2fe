"""Charts of lines as figures, without a library: few points, and each marked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from primus_core.render.charts import COLOURS, Chart, described
from primus_core.render.figures import Box, Figure, Label, Path, Shape

_WIDTH, _HEIGHT = 900.0, 330.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 70.0, 20.0, 12.0, 46.0
_LINE = 20.0
_NAMES_IN_ROW = 3
_MARK = 5.0
_MOST_MARKS = 60
_DASHES: tuple[tuple[float, ...], ...] = ((), (7, 3), (2, 3), (9, 3, 2, 3))
_TICKS = 5

Place = Callable[[float], float]


def plotted(chart: Chart, *, doubling: bool = False, tick: Callable[[float], str] = "{:g}".format) -> Figure:
    """The chart with axes from zero up.

    Args:
        doubling: each step to the right doubles x, as for sizes.
        tick: what stands below the x axis.
    """
    rows = -(-len(chart.series) // _NAMES_IN_ROW)
    top = _TOP + rows * _LINE
    bottom = top + _HEIGHT - _TOP - _BOTTOM
    xs = sorted({x for series in chart.series for x in series.x})
    highest = max([y for series in chart.series for y in series.y if math.isfinite(y)], default=1.0) or 1.0
    step = _step(highest)
    most = math.ceil(highest / step) * step
    scale = math.log2 if doubling else float
    low, high = (scale(xs[0]), scale(xs[-1])) if xs else (0.0, 1.0)
    wide = _WIDTH - _LEFT - _RIGHT

    def across(x: float) -> float:
        return _LEFT + (wide * (scale(x) - low) / (high - low) if high > low else wide / 2)

    def up(y: float) -> float:
        return bottom - (bottom - top) * y / most

    shapes = [*_names(chart), *_grid(step, most, up), *_below(xs, across, bottom, tick), *_lines(chart, across, up)]
    shapes.append(Label(x=_WIDTH - _RIGHT, y=bottom + 38, text=str(chart.x), anchor="end"))
    shapes.append(Label(x=16, y=top, text=str(chart.y), anchor="end", upright=True))
    return Figure(width=_WIDTH, height=bottom + _BOTTOM, shapes=tuple(shapes), described=described(chart))


def _names(chart: Chart) -> Iterator[Shape]:
    for number, series in enumerate(chart.series):
        x, y = _LEFT + number % _NAMES_IN_ROW * 270, _TOP + number // _NAMES_IN_ROW * _LINE
        yield _line(number, ((x, y), (x + 26, y)))
        yield Label(x=x + 32, y=y + 4, text=series.name)


def _grid(step: float, most: float, up: Place) -> Iterator[Shape]:
    for number in range(round(most / step) + 1):
        y = up(number * step)
        yield Path(points=((_LEFT, y), (_WIDTH - _RIGHT, y)), opacity=0.5 if number == 0 else 0.15)
        yield Label(x=_LEFT - 8, y=y + 4, text=f"{number * step:.4g}", anchor="end")


def _below(xs: Sequence[float], across: Place, bottom: float, tick: Callable[[float], str]) -> Iterator[Shape]:
    """As many as have room."""
    last = -math.inf
    for x in xs:
        if across(x) - last >= 70:
            last = across(x)
            edge = last + _RIGHT >= _WIDTH - _RIGHT
            yield Label(x=last, y=bottom + 18, text=tick(x), anchor="end" if edge else "middle")


def _lines(chart: Chart, across: Place, up: Place) -> Iterator[Shape]:
    for number, series in enumerate(chart.series):
        known = [(across(x), up(y)) for x, y in zip(series.x, series.y, strict=True) if math.isfinite(y)]
        if len(known) > 1:
            yield _line(number, tuple(known))
        values = filter(math.isfinite, series.y)
        for (x, y), value in zip(known, values, strict=True) if len(known) <= _MOST_MARKS else ():
            told = f"{series.name}: {value:.4g} {chart.y.unit}"
            yield Box(x=x - _MARK / 2, y=y - _MARK / 2, width=_MARK, height=_MARK, colour=_colour_of(number), told=told)


def _line(number: int, points: tuple[tuple[float, float], ...]) -> Path:
    dashes = _DASHES[number // len(COLOURS) % len(_DASHES)]
    return Path(points=points, colour=_colour_of(number), width=1.8, dashes=dashes)


def _colour_of(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _step(highest: float) -> float:
    """A round number of which about five reach the highest."""
    rough = highest / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
