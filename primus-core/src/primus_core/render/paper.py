"""Pages as PDF, through reportlab. The same page gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from typing import Any
from xml.sax.saxutils import escape

from reportlab.lib.colors import HexColor
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    CondPageBreak,
    Flowable,
    KeepTogether,
    LongTable,
    PageBreak,
    SimpleDocTemplate,
    Spacer,
)
from reportlab.platypus import Paragraph as Lines

from primus_core.render.figures import Box, Figure, Label, Path
from primus_core.render.pages import Block, Drawing, Heading, Notice, Page, Paragraph
from primus_core.render.tables import Table, Tone, one_line

_INK, _GREY, _RULE = HexColor("#1b1f24"), HexColor("#59636e"), HexColor("#d1d9e0")
_TONES: dict[Tone, str] = {"good": "#2f7d4f", "doubtful": "#b06f00", "bad": "#b3202c"}
_MARGIN = 16 * mm
_WIDTH = A4[0] - 2 * _MARGIN - 12
"""Of what is on a sheet; its frame keeps 6 points on each side."""
_CODE = "cp1252"
"""What the fonts that every reader has can show."""
_CELL = ParagraphStyle("cell", fontName="Helvetica", fontSize=8, leading=10, textColor=_INK)
_FIGURE = ParagraphStyle("figure", parent=_CELL, alignment=2)
_NAME = ParagraphStyle("name", parent=_CELL, fontName="Helvetica-Bold", textColor=_GREY)
_NAME_RIGHT = ParagraphStyle("name-right", parent=_NAME, alignment=2)
_TEXT = ParagraphStyle("text", parent=_CELL, fontSize=9.5, leading=13, spaceAfter=5)
_TITLE = ParagraphStyle("title", parent=_TEXT, fontName="Helvetica-Bold", fontSize=16, leading=20)
_HEADING = ParagraphStyle("heading", parent=_TITLE, fontSize=13, leading=17, spaceBefore=10)
_CAPTION = ParagraphStyle("caption", parent=_TEXT, fontName="Helvetica-Bold", fontSize=10, spaceBefore=8, spaceAfter=3)
_PADDING = 6.0
_MEASURED_ROWS = 200
"""Widths of columns are those of so many rows."""
_NARROWEST = 32.0


def pdf(page: Page) -> bytes:
    """The page on sheets of A4, numbered; charts that only `primus_core.render.drawing` draws are left out."""
    file = io.BytesIO()
    title = _plain(page.title)
    sheets = SimpleDocTemplate(
        file,
        pagesize=A4,
        leftMargin=_MARGIN,
        rightMargin=_MARGIN,
        topMargin=_MARGIN,
        bottomMargin=_MARGIN + 4 * mm,
        invariant=1,
    )
    flow: list[Flowable] = [Lines(escape(title), _TITLE)]
    for block in page.blocks:
        flow += _flowables(block)
    sheets.title, sheets.author = title, "Primus"
    footer = partial(_footer, title)
    sheets.build(flow, onFirstPage=footer, onLaterPages=footer)
    return file.getvalue()


def _footer(title: str, canvas: Canvas, sheets: SimpleDocTemplate) -> None:
    canvas.saveState()
    canvas.setFont("Helvetica", 7.5)
    canvas.setFillColor(_GREY)
    canvas.drawString(_MARGIN, 10 * mm, title)
    canvas.drawRightString(A4[0] - _MARGIN, 10 * mm, str(sheets.page))
    canvas.restoreState()


def _flowables(block: Block) -> Iterator[Flowable]:
    if isinstance(block, Heading):
        yield PageBreak() if block.new_sheet else CondPageBreak(40 * mm)
        yield Lines(_marked(block.text), _HEADING)
    elif isinstance(block, Paragraph):
        yield Lines(_marked(block.text), _TEXT)
    elif isinstance(block, Notice):
        yield from (_Banner(block), Spacer(1, 8))
    elif isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Drawing):
        yield KeepTogether([Lines(_marked(block.title), _CAPTION), _Sheet(block.figure), Spacer(1, 8)])


def _table(table: Table) -> Iterator[Flowable]:
    yield CondPageBreak(30 * mm)
    yield Lines(_marked(table.title), _CAPTION)
    right = [column.align == "right" for column in table.columns]
    head = [
        Lines(_marked(column.name), _NAME_RIGHT if figures else _NAME)
        for column, figures in zip(table.columns, right, strict=True)
    ]
    body = [
        [Lines(_cell(cell, table), _FIGURE if figures else _CELL) for cell, figures in zip(row, right, strict=True)]
        for row in table.rows
    ]
    style: list[tuple[Any, ...]] = [
        ("LINEBELOW", (0, 0), (-1, -1), 0.4, _RULE),
        ("LINEBELOW", (0, 0), (-1, 0), 0.8, _GREY),
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("LEFTPADDING", (0, 0), (-1, -1), 0),
        ("RIGHTPADDING", (0, 0), (-1, -1), _PADDING),
        ("TOPPADDING", (0, 0), (-1, -1), 2),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 3),
    ]
    yield LongTable([head, *body], colWidths=_widths(table), repeatRows=1, hAlign="LEFT", style=style)
    yield Spacer(1, 6)


def _cell(text: str, table: Table) -> str:
    marked = _marked(text)
    return f'<font color="{_TONES[table.tones[text]]}"><b>{marked}</b></font>' if text in table.tones else marked


def _widths(table: Table) -> list[float]:
    """As wide as the texts are; where that is too much, those above their share give it back."""
    rows = [tuple(column.name for column in table.columns), *table.rows[:_MEASURED_ROWS]]
    wanted = [
        max(_NARROWEST, *(stringWidth(_plain(cell), "Helvetica-Bold", 8) + _PADDING + 1 for cell in cells))
        for cells in zip(*rows, strict=True)
    ]
    left, widths = _WIDTH, [0.0] * len(wanted)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    for number, column in enumerate(order):
        widths[column] = min(wanted[column], left / (len(order) - number))
        left -= widths[column]
    return widths


class _Banner(Flowable):  # type: ignore[misc]  # reportlab tells no types
    """A notice, white on the colour of its tone."""

    def __init__(self, notice: Notice) -> None:
        super().__init__()
        white = HexColor("#ffffff")
        large = ParagraphStyle("large", parent=_TITLE, textColor=white, spaceAfter=0)
        small = ParagraphStyle("small", parent=_TEXT, textColor=white, fontSize=10, spaceAfter=0)
        self._tone = notice.tone
        self._lines = [Lines(_marked(notice.text), large)]
        if notice.more:
            self._lines.append(Lines(_marked(notice.more), small))

    def wrap(self, width: float, height: float) -> tuple[float, float]:
        """As reportlab asks for it."""
        self.width = width
        self._heights = [lines.wrap(width - 24, height)[1] for lines in self._lines]
        self.height = sum(self._heights) + 20
        return width, self.height

    def draw(self) -> None:
        """As reportlab asks for it."""
        self.canv.setFillColor(HexColor(_TONES[self._tone]))
        self.canv.roundRect(0, 0, self.width, self.height, 4, stroke=0, fill=1)
        y = self.height - 9
        for lines, height in zip(self._lines, self._heights, strict=True):
            y -= height
            lines.drawOn(self.canv, 12, y)


class _Sheet(Flowable):  # type: ignore[misc]  # reportlab tells no types
    """A figure, as wide as the sheet."""

    def __init__(self, figure: Figure) -> None:
        super().__init__()
        self._figure = figure
        self._scale = min(_WIDTH / figure.width, (A4[1] - 2 * _MARGIN - 30 * mm) / figure.height)
        self.width, self.height = figure.width * self._scale, figure.height * self._scale

    def wrap(self, _width: float, _height: float) -> tuple[float, float]:
        """As reportlab asks for it."""
        return self.width, self.height

    def draw(self) -> None:
        """As reportlab asks for it; its origin is the lower left corner."""
        self.canv.scale(self._scale, self._scale)
        for shape in self._figure.shapes:
            if isinstance(shape, Box):
                self._box(shape)
            elif isinstance(shape, Path):
                self._path(shape)
            else:
                self._label(shape)

    def _box(self, box: Box) -> None:
        self.canv.setFillColor(_colour(box.colour), alpha=box.opacity)
        y = self._figure.height - box.y - box.height
        self.canv.rect(box.x, y, box.width, box.height, stroke=0, fill=1)

    def _path(self, path: Path) -> None:
        self.canv.setStrokeColor(_colour(path.colour), alpha=path.opacity)
        self.canv.setLineWidth(path.width)
        self.canv.setDash(list(path.dashes))
        drawn = self.canv.beginPath()
        for number, (x, y) in enumerate(path.points):
            (drawn.lineTo if number else drawn.moveTo)(x, self._figure.height - y)
        self.canv.drawPath(drawn, stroke=1, fill=0)

    def _label(self, label: Label) -> None:
        self.canv.saveState()
        self.canv.setFillColor(_colour(label.colour), alpha=1)
        self.canv.setFont("Helvetica", label.size)
        self.canv.translate(label.x, self._figure.height - label.y)
        self.canv.rotate(90 if label.upright else 0)
        text = _plain(label.text)
        moved = {"start": 0.0, "middle": 0.5, "end": 1.0}[label.anchor]
        self.canv.drawString(-moved * stringWidth(text, "Helvetica", label.size), 0, text)
        self.canv.restoreState()


def _colour(colour: str) -> HexColor:
    return HexColor(colour) if colour else _INK


def _marked(text: str) -> str:
    return escape(_plain(text))


def _plain(text: str) -> str:
    """On one line, in characters that the fonts have."""
    return one_line(text).encode(_CODE, "replace").decode(_CODE)
