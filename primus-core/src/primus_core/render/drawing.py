"""Charts as PNG and SVG, through matplotlib. The same chart gives the same bytes."""

from __future__ import annotations

import io
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from primus_core.render.charts import COLOURS, Chart, Series, described
from primus_core.render.tables import one_line

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

WIDTH, HEIGHT = 8.0, 4.0
"""Inches."""
DOTS_PER_INCH = 150
"""Of a PNG."""
_INK = "#010203"
"""Of what is no series. In an SVG, it stands for the colour of the text around it."""
_PAPER = "#ffffff"
_DASHES = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
"""Lines differ in more than their colour, and show what they cover."""
_LONGEST_NAME = 90
_SETTINGS: dict[RcKeyType, Any] = {
    "axes.edgecolor": _INK,
    "axes.grid": True,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "grid.alpha": 0.2,
    "grid.color": _INK,
    "legend.frameon": False,
    "legend.labelcolor": _INK,
    "path.simplify": True,
    "svg.fonttype": "none",
    "text.color": _INK,
    "text.parse_math": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"


def png(chart: Chart) -> bytes:
    """The chart on white paper."""
    with _drawn(chart) as figure:
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=DOTS_PER_INCH, facecolor=_PAPER, metadata={"Software": None})
    return file.getvalue()


def svg(chart: Chart) -> str:
    """One ``svg`` element: the chart on no paper, in the colour of the text around it; a file of its own, too.

    Its text is text, its ids begin with the chart's name, and it refers to nothing outside.
    """
    with _drawn(chart) as figure:
        file = io.BytesIO()
        figure.savefig(file, format="svg", transparent=True)
    return _for_pages(file.getvalue(), chart)


@contextmanager
def _drawn(chart: Chart) -> Iterator[Figure]:
    """The figure, with matplotlib's settings as they must be while it is saved, whatever the user's are."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**_SETTINGS, "svg.hashsalt": chart.name})
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        _draw(figure.add_subplot(), chart)
        figure.legend(loc="outside upper left", ncols=1, fontsize="small")
        yield figure


def _draw(axes: Axes, chart: Chart) -> None:
    axes.set_xlabel(one_line(str(chart.x)))
    axes.set_ylabel(one_line(str(chart.y)))
    axes.margins(x=0.01)
    for number, series in enumerate(chart.series):
        axes.plot(
            list(series.x),
            list(series.y),
            color=COLOURS[number % len(COLOURS)],
            linestyle=_DASHES[number % len(_DASHES)],
            linewidth=1.5,
            marker="o" if len(series.x) == 1 else "",
            label=_name(series),
        )
    if all(float(x).is_integer() for series in chart.series for x in series.x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _name(series: Series) -> str:
    """Cut in its middle to fit into the legend, which leaves out what begins with an underscore."""
    text, half = one_line(series.name), _LONGEST_NAME // 2
    short = text if len(text) <= _LONGEST_NAME else f"{text[:half]}...{text[-half:]}"
    return f" {short}" if short.startswith("_") else short


def _for_pages(drawn: bytes, chart: Chart) -> str:
    root = ET.fromstring(drawn)  # noqa: S314 - it was made right here
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        element.attrib = {_attribute(name): _within(name, value, chart) for name, value in element.attrib.items()}
    for size in ("width", "height"):
        del root.attrib[size]  # as wide as there is room: the proportions are in viewBox
    joins = {"stroke-linejoin": "round", "stroke-linecap": "butt"}  # what the style said, for this element only
    root.attrib |= {"xmlns": _SVG, "role": "img", "aria-label": one_line(described(chart)), **joins}
    return ET.tostring(root, encoding="unicode")


def _attribute(name: str) -> str:
    return "href" if name == _LINK else name


def _within(name: str, value: str, chart: Chart) -> str:
    """An attribute's value, with ids that are the chart's own, and the ink of the page."""
    if name == "id":
        return f"{chart.name}-{value}"
    if name in ("href", _LINK):
        return value.replace("#", f"#{chart.name}-", 1)
    return value.replace("url(#", f"url(#{chart.name}-").replace(_INK, "currentColor")
