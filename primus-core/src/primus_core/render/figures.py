"""Drawings of a few shapes, that SVG and PDF show alike; made with the standard library alone."""

from __future__ import annotations

from html import escape
from typing import Literal, TypeAlias

from primus_core.records import frozen
from primus_core.render.tables import one_line

INK = ""
"""The colour of the text around a drawing."""


@frozen(kw_only=True)
class Box:
    """A filled rectangle; x and y of its upper left corner."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    opacity: float = 1.0
    told: str = ""
    """Said when it is pointed at, where a reader can point."""


@frozen(kw_only=True)
class Path:
    """A line through points."""

    points: tuple[tuple[float, float], ...]
    colour: str = INK
    width: float = 1.0
    dashes: tuple[float, ...] = ()
    opacity: float = 1.0


@frozen(kw_only=True)
class Label:
    """One line of text; x and y of where its base line starts, ends or has its middle."""

    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"
    size: float = 12.0
    upright: bool = False
    """Turned by a quarter, to be read from below."""
    colour: str = INK


Shape: TypeAlias = "Box | Path | Label"


@frozen(kw_only=True)
class Figure:
    """Shapes on a sheet whose origin is its upper left corner; later ones lie on top."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    described: str
    """The same in words, for who cannot see it."""


def svg(figure: Figure) -> str:
    """One ``svg`` element, as wide as there is room; it refers to nothing outside."""
    body = "\n".join(map(_element, figure.shapes))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {figure.width:g} {figure.height:g}" role="img" '
        f'fill="currentColor" aria-label="{_text(figure.described)}">\n{body}\n</svg>'
    )


def _element(shape: Shape) -> str:
    if isinstance(shape, Box):
        return _box(shape)
    return _path(shape) if isinstance(shape, Path) else _label(shape)


def _box(box: Box) -> str:
    opacity = f' fill-opacity="{box.opacity:g}"' if box.opacity < 1 else ""
    place = f'x="{box.x:.6g}" y="{box.y:.6g}" width="{box.width:.6g}" height="{box.height:.6g}"'
    start = f'<rect {place} fill="{_colour(box.colour)}"{opacity}'
    return f"{start}><title>{_text(box.told)}</title></rect>" if box.told else f"{start}/>"


def _path(path: Path) -> str:
    points = " ".join(f"{x:.6g},{y:.6g}" for x, y in path.points)
    dashes = f' stroke-dasharray="{" ".join(f"{one:g}" for one in path.dashes)}"' if path.dashes else ""
    stroke = f'stroke="{_colour(path.colour)}" stroke-width="{path.width:g}" stroke-opacity="{path.opacity:g}"'
    return f'<polyline points="{points}" fill="none" {stroke}{dashes}/>'


def _label(label: Label) -> str:
    turned = f' transform="rotate(-90 {label.x:.6g} {label.y:.6g})"' if label.upright else ""
    place = f'x="{label.x:.6g}" y="{label.y:.6g}" text-anchor="{label.anchor}" font-size="{label.size:g}"'
    colour = f' fill="{label.colour}"' if label.colour else ""
    return f"<text {place}{turned}{colour}>{_text(label.text)}</text>"


def _colour(colour: str) -> str:
    return colour or "currentColor"


def _text(text: str) -> str:
    return escape(one_line(text), quote=True)
