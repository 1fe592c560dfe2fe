"""Tables of text: for a terminal, Markdown and HTML."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from html import escape
from typing import Literal

from attrs import field

from primus_core.records import frozen

_GAP = "  "
_MARKDOWN = re.compile(r"[\\`*\[\]<>|~$&#]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
"""What would be more than a character in Markdown; within a word, an underscore is none."""


Tone = Literal["good", "doubtful", "bad"]


@frozen
class Column:
    """One column; figures stand right, so that their digits are below each other."""

    name: str
    align: Literal["left", "right"] = "left"


@frozen(kw_only=True)
class Table:
    """Rows of texts, as many in each as there are columns. The first one names the row."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    tones: Mapping[str, Tone] = field(factory=dict)
    """Of words that have to be seen, where a cell holds nothing else."""


def as_text(table: Table) -> str:
    """Aligned columns below the title, for characters of one width."""
    lines = [tuple(column.name for column in table.columns), *(tuple(map(one_line, row)) for row in table.rows)]
    widths = [max(map(_width, cells)) for cells in zip(*lines, strict=True)]
    body = (
        _GAP.join(map(_padded, line, widths, (column.align for column in table.columns))).rstrip() for line in lines
    )
    return "\n".join([table.title, *(f"{_GAP}{line}" for line in body)])


def as_markdown(table: Table) -> str:
    """The title as a heading, and a table of GitHub's Markdown."""
    rules = ["---:" if column.align == "right" else "---" for column in table.columns]
    names = [column.name for column in table.columns]
    rows = [_markdown_row(map(markdown_text, cells)) for cells in (names, *table.rows)]
    return "\n".join([f"## {markdown_text(table.title)}", "", rows[0], _markdown_row(rules), *rows[1:]])


def as_html(table: Table) -> str:
    """A table with a caption and headers of columns and rows, which screen readers tell with each cell."""
    head = "".join(f'<th scope="col"{_class(column)}>{escape(column.name)}</th>' for column in table.columns)
    rows = "\n".join(_html_row(row, table) for row in table.rows)
    return (
        f'<div class="wide"><table>\n<caption>{escape(table.title)}</caption>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table></div>"
    )


def one_line(text: str) -> str:
    """The text without line breaks and other characters that move the cursor."""
    return "".join(character if character.isprintable() else " " for character in text)


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _MARKDOWN.sub(r"\\\g<0>", one_line(text))


def _width(text: str) -> int:
    """Columns of a terminal: wide characters of East Asia take two, marks on others none."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def _padded(text: str, width: int, align: str) -> str:
    padding = " " * (width - _width(text))
    return padding + text if align == "right" else text + padding


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _html_row(row: tuple[str, ...], table: Table) -> str:
    first, *others = (_html_cell(cell, table.tones) for cell in row)
    cells = (f"<td{_class(column)}>{cell}</td>" for cell, column in zip(others, table.columns[1:], strict=True))
    return f'<tr><th scope="row">{first}</th>{"".join(cells)}</tr>'


def _html_cell(cell: str, tones: Mapping[str, Tone]) -> str:
    return f'<b class="{tones[cell]}">{escape(cell)}</b>' if cell in tones else escape(cell)


def _class(column: Column) -> str:
    return ' class="figure"' if column.align == "right" else ""
