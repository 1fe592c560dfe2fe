"""Stacked bars, as data and as SVG; drawn with the standard library alone."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from attrs import field

from primus_core.records import frozen
from primus_core.render.charts import COLOURS
from primus_core.render.tables import one_line

_WIDTH, _LEFT, _RIGHT = 900, 110, 130
_BAR, _GAP, _LINE = 22, 8, 20
_FADED = (1.0, 0.55, 0.3)
"""Opacity of the colours each time that they come round."""


@frozen(kw_only=True)
class Part:
    """The same thing in all bars."""

    name: str
    sizes: tuple[float, ...]
    """By bar, none below 0."""


@frozen(kw_only=True)
class Bars:
    """Bars that lie below each other, each with its parts in one order."""

    title: str
    unit: str
    labels: tuple[str, ...]
    parts: tuple[Part, ...]
    limit: float | None = field(default=None)
    """A line across all bars."""
    limit_name: str = ""

    def total(self, bar: int) -> float:
        """Length of one bar."""
        return sum(part.sizes[bar] for part in self.parts)


def svg(bars: Bars) -> str:
    """One ``svg`` element in the colour of the text around it; each part tells its name and size when pointed at."""
    legend = -(-len(bars.parts) // 3) * _LINE + _GAP
    height = legend + len(bars.labels) * (_BAR + _GAP) + _LINE
    body = "\n".join([*_legend(bars), *_bars(bars, legend), *_limit(bars, legend, height)])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" font-size="12" '
        f'fill="currentColor" aria-label="{_text(described(bars))}">\n{body}\n</svg>'
    )


def described(bars: Bars) -> str:
    """The bars in words, for who cannot see them."""
    lines = (f"{label}: {bars.total(bar):.4g} {bars.unit}." for bar, label in enumerate(bars.labels))
    return " ".join([f"{bars.title}.", *lines])


def _legend(bars: Bars) -> Iterator[str]:
    for number, part in enumerate(bars.parts):
        x, y = _LEFT + number % 3 * 260, number // 3 * _LINE
        yield f'<rect x="{x}" y="{y + 2}" width="12" height="12" {_paint(number)}/>'
        yield f'<text x="{x + 18}" y="{y + 12}">{_text(part.name)}</text>'


def _bars(bars: Bars, top: int) -> Iterator[str]:
    for bar, label in enumerate(bars.labels):
        y = top + bar * (_BAR + _GAP)
        yield f'<text x="{_LEFT - 8}" y="{y + 15}" text-anchor="end">{_text(label)}</text>'
        x = float(_LEFT)
        for number, part in enumerate(bars.parts):
            width = part.sizes[bar] * _scale(bars)
            told = _text(f"{part.name}: {part.sizes[bar]:.4g} {bars.unit}")
            yield (
                f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_BAR}" {_paint(number)}>'
                f"<title>{told}</title></rect>"
            )
            x += width
        yield f'<text x="{x + 6:.2f}" y="{y + 15}">{bars.total(bar):.4g} {_text(bars.unit)}</text>'


def _limit(bars: Bars, top: int, height: int) -> Iterator[str]:
    if bars.limit is None:
        return
    x = _LEFT + bars.limit * _scale(bars)
    yield (
        f'<line x1="{x:.2f}" x2="{x:.2f}" y1="{top - 4}" y2="{height - _LINE}" stroke="currentColor" '
        'stroke-dasharray="4 3"/>'
    )
    yield f'<text x="{x:.2f}" y="{height - 5}" text-anchor="middle">{_text(bars.limit_name)}</text>'


def _scale(bars: Bars) -> float:
    """Units of the drawing for one of the bars' own."""
    longest = max([bars.limit or 0.0, *map(bars.total, range(len(bars.labels)))])
    return (_WIDTH - _LEFT - _RIGHT) / longest if longest else 0.0


def _paint(number: int) -> str:
    again, colour = divmod(number, len(COLOURS))
    return f'fill="{COLOURS[colour]}" fill-opacity="{_FADED[again % len(_FADED)]}"'


def _text(text: str) -> str:
    return escape(one_line(text), quote=True)
