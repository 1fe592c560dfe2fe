"""Pages of paragraphs, tables and charts: for a terminal, Markdown and HTML; `primus_core.render.paper` makes PDF."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import TypeAlias

from primus_core.records import frozen
from primus_core.render import bars, figures, tables
from primus_core.render.bars import Bars
from primus_core.render.charts import Chart, described
from primus_core.render.figures import Figure
from primus_core.render.tables import Table, Tone, markdown_text, one_line


@frozen
class Paragraph:
    """A few sentences."""

    text: str


@frozen
class Heading:
    """Begins a part of a page."""

    text: str
    new_sheet: bool = False
    """On paper, the part begins on a sheet of its own."""


@frozen(kw_only=True)
class Notice:
    """What has to be seen first."""

    tone: Tone
    text: str
    """A few words."""
    more: str = ""
    """A sentence."""


@frozen(kw_only=True)
class Drawing:
    """A figure with its title."""

    name: str
    """Of its file: lower-case letters and dashes."""
    title: str
    figure: Figure


Block: TypeAlias = "Paragraph | Heading | Notice | Table | Chart | Bars | Drawing"


@frozen(kw_only=True)
class Page:
    """What a report says, from top to bottom."""

    title: str
    blocks: tuple[Block, ...]

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(block for block in self.blocks if isinstance(block, Chart))


def as_text(page: Page) -> str:
    """For a terminal, which shows no charts, bars and drawings."""
    shown = (_text(block) for block in page.blocks if isinstance(block, Paragraph | Heading | Notice | Table))
    return "\n\n".join([one_line(page.title), *shown])


def as_markdown(page: Page, images: Mapping[str, str]) -> str:
    """GitHub's Markdown.

    Args:
        images: the image file of a chart, by its name; charts that have none are left out.
    """
    shown = (_markdown(block, images) for block in page.blocks)
    return "\n\n".join([f"# {markdown_text(page.title)}", *filter(None, shown)])


def as_html(page: Page, draw: Callable[[Chart], str]) -> str:
    """One file that holds all it shows, needs no script, and is dark where the reader's screen is.

    Args:
        draw: makes the ``svg`` element of a chart.
    """
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    body = "\n".join(_html(block, draw) for block in page.blocks)
    title = escape(one_line(page.title))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{title}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _text(block: Paragraph | Heading | Notice | Table) -> str:
    if isinstance(block, Table):
        return tables.as_text(block)
    return one_line(_said(block) if isinstance(block, Notice) else block.text)


def _said(notice: Notice) -> str:
    return f"{notice.text}: {notice.more}" if notice.more else notice.text


def _markdown(block: Block, images: Mapping[str, str]) -> str:
    if isinstance(block, Table):
        return tables.as_markdown(block)
    if isinstance(block, Heading):
        return f"## {markdown_text(block.text)}"
    if isinstance(block, Notice):
        return f"**{markdown_text(block.text)}**" + (f"  \n{markdown_text(block.more)}" if block.more else "")
    if isinstance(block, Paragraph):
        return markdown_text(block.text)
    if isinstance(block, Bars) or block.name not in images:
        return ""
    words = block.figure.described if isinstance(block, Drawing) else described(block)
    return f"## {markdown_text(block.title)}\n\n![{markdown_text(words)}]({images[block.name]})"


def _html(block: Block, draw: Callable[[Chart], str]) -> str:
    if isinstance(block, Table):
        return tables.as_html(block)
    if isinstance(block, Heading):
        return f"<h2>{escape(one_line(block.text))}</h2>"
    if isinstance(block, Notice):
        more = f"<p>{escape(one_line(block.more))}</p>" if block.more else ""
        return f'<div class="notice {block.tone}"><strong>{escape(one_line(block.text))}</strong>{more}</div>'
    if isinstance(block, Paragraph):
        return f"<p>{escape(one_line(block.text))}</p>"
    return f"<figure>\n<figcaption>{escape(one_line(block.title))}</figcaption>\n{_svg(block, draw)}\n</figure>"


def _svg(block: Chart | Bars | Drawing, draw: Callable[[Chart], str]) -> str:
    if isinstance(block, Drawing):
        return figures.svg(block.figure)
    return bars.svg(block) if isinstance(block, Bars) else draw(block)
