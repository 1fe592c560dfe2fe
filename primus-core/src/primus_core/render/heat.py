"""Heat maps: a value for each row and column, as data and as a figure."""

from __future__ import annotations

from collections.abc import Iterator

from primus_core.records import frozen
from primus_core.render.figures import Box, Figure, Label, Shape

_WIDTH, _LEFT, _TOP, _LINE = 900.0, 150.0, 30.0, 14.0
_CELL, _HIGH = 64.0, 30.0
_SCALE = ((0.95, "#2f9e63"), (0.9, "#8fbf4d"), (0.75, "#e8b93c"), (0.5, "#dd7a2c"), (0.0, "#c8323c"))
"""From which part of the best on a cell has a colour."""
_NONE = "#7d8590"
_FIGURE = "#10151a"
"""Of figures in cells, whatever is around the drawing."""
_ROOM = 30.0
"""A cell as wide has room for its figure."""


@frozen(kw_only=True)
class Heat:
    """Some values of one unit; more is better."""

    name: str
    """Of its file and element: lower-case letters and dashes."""
    title: str
    unit: str
    best: float
    """What the colours are parts of."""
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_name: str
    column_name: str
    values: tuple[tuple[float | None, ...], ...]
    """By row and column; None where nothing is known, 0 where it failed."""


def described(heat: Heat) -> str:
    """Its range in words, and where the least is."""
    known = [
        (value, row, column)
        for row, values in zip(heat.rows, heat.values, strict=True)
        for column, value in zip(heat.columns, values, strict=True)
        if value is not None
    ]
    if not known:
        return f"{heat.title}: nothing is known."
    least, row, column = min(known)
    return (
        f"{heat.title}: between {least:.4g} and {max(known)[0]:.4g} {heat.unit}; "
        f"the least is at {heat.row_name} {row}, {heat.column_name} {column}."
    )


def heat_figure(heat: Heat) -> Figure:
    """Cells in colours of how near they come to the best; with their figures where there is room."""
    width = min(_CELL, (_WIDTH - _LEFT) / max(1, len(heat.columns)))
    height = min(_HIGH, max(11.0, width))
    shapes = [*_legend(heat), *_columns(heat, width), *_cells(heat, width, height)]
    bottom = _top(heat) + len(heat.rows) * height
    return Figure(width=_WIDTH, height=bottom + 8, shapes=tuple(shapes), described=described(heat))


def _legend(heat: Heat) -> Iterator[Shape]:
    texts = ["95 % and more", "90 %", "75 %", "50 %", "less"]
    x = _LEFT
    yield Label(x=_LEFT - 8, y=11, text="of the best", anchor="end", size=11)
    for (_, colour), text in zip(_SCALE, texts, strict=True):
        yield Box(x=x, y=1, width=12, height=12, colour=colour)
        yield Label(x=x + 17, y=11, text=text, size=11)
        x += 40 + 7 * len(text)
    yield Label(x=x, y=11, text=f"best {heat.best:.4g} {heat.unit}", size=11)


def _columns(heat: Heat, width: float) -> Iterator[Shape]:
    top = _top(heat)
    yield Label(x=_LEFT - 8, y=top - 6, text=f"{heat.row_name} / {heat.column_name}", anchor="end", size=11)
    upright = _upright(heat)
    for number, name in enumerate(heat.columns):
        x = _LEFT + (number + 0.5) * width
        if upright:
            yield Label(x=x + 4, y=top - 4, text=name, size=min(11.0, width), upright=True)
        else:
            yield Label(x=x, y=top - 6, text=name, anchor="middle", size=11)


def _cells(heat: Heat, width: float, height: float) -> Iterator[Shape]:
    top = _top(heat)
    for number, (row, values) in enumerate(zip(heat.rows, heat.values, strict=True)):
        y = top + number * height
        yield Label(x=_LEFT - 8, y=y + height / 2 + 4, text=row, anchor="end", size=min(11.0, height))
        for place, (column, value) in enumerate(zip(heat.columns, values, strict=True)):
            if value is None:
                continue
            x = _LEFT + place * width
            told = f"{heat.row_name} {row}, {heat.column_name} {column}: {value:.4g} {heat.unit}"
            yield Box(x=x, y=y, width=width - 1, height=height - 1, colour=_colour(value, heat.best), told=told)
            if width >= _ROOM:
                text = f"{value:.3g}"
                yield Label(x=x + width / 2, y=y + height / 2 + 4, text=text, anchor="middle", size=11, colour=_FIGURE)


def _colour(value: float, best: float) -> str:
    if best <= 0:
        return _NONE
    return next(colour for least, colour in _SCALE if value / best >= least)


def _upright(heat: Heat) -> bool:
    """Names of columns that are too long to stand beside each other."""
    width = min(_CELL, (_WIDTH - _LEFT) / max(1, len(heat.columns)))
    return max(map(len, heat.columns), default=0) * 6.5 > width


def _top(heat: Heat) -> float:
    room = max(map(len, heat.columns), default=0) * 6.5 if _upright(heat) else _LINE
    return _TOP + room
