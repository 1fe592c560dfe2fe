"""Pages of paragraphs, tables and charts: for a terminal, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import TypeAlias

from attrs import frozen

from primus_core.render import bars, tables
from primus_core.render.bars import Bars
from primus_core.render.charts import Chart, described
from primus_core.render.tables import Table, markdown_text, one_line


@frozen
class Paragraph:
    """A few sentences."""

    text: str


Block: TypeAlias = "Paragraph | Table | Chart | Bars"


@frozen(kw_only=True)
class Page:
    """What a report says, from top to bottom."""

    title: str
    blocks: tuple[Block, ...]

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(block for block in self.blocks if isinstance(block, Chart))


def as_text(page: Page) -> str:
    """For a terminal, which shows no charts and no bars."""
    shown = (_text(block) for block in page.blocks if isinstance(block, Paragraph | Table))
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


def _text(block: Paragraph | Table) -> str:
    return tables.as_text(block) if isinstance(block, Table) else one_line(block.text)


def _markdown(block: Block, images: Mapping[str, str]) -> str:
    if isinstance(block, Table):
        return tables.as_markdown(block)
    if isinstance(block, Paragraph):
        return markdown_text(block.text)
    if isinstance(block, Bars) or block.name not in images:
        return ""
    return f"## {markdown_text(block.title)}\n\n![{markdown_text(described(block))}]({images[block.name]})"


def _html(block: Block, draw: Callable[[Chart], str]) -> str:
    if isinstance(block, Table):
        return tables.as_html(block)
    if isinstance(block, Paragraph):
        return f"<p>{escape(one_line(block.text))}</p>"
    drawn = bars.svg(block) if isinstance(block, Bars) else draw(block)
    return f"<figure>\n<figcaption>{escape(one_line(block.title))}</figcaption>\n{drawn}\n</figure>"
