"""Tables, charts and pages look right in every format, whatever they say."""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from primus_core.render import drawing, pages, tables
from primus_core.render.charts import COLOURS, Axis, Chart, Series, described
from primus_core.render.pages import Page, Paragraph
from primus_core.render.tables import Column, Table

ODD = "a_b _c_ *d* $e$ `f` [g](h) <i> j|k & \"l\" 'm' \\n #o ~p~"
"""Characters that mean something in Markdown, HTML, SVG or formulas."""


def chart(*series: Series, name: str = "loss") -> Chart:
    lines = series or (Series(name="A", x=[1, 2, 3], y=[3, 2, 1]), Series(name="B", x=[1, 2, 3], y=[1, 2, 3]))
    return Chart(name=name, title="Loss", x=Axis("iteration"), y=Axis("loss", "nats per token"), series=lines)


def table(*rows: tuple[str, str]) -> Table:
    return Table(title="Figures", columns=(Column("what"), Column("A", "right")), rows=rows)


class Reader(HTMLParser):
    """Collects elements and text; fails on a tag that closes nothing."""

    EMPTY = frozenset({"meta", "path", "use", "rect"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def refers_outside(text: str) -> list[str]:
    """What a browser would load for a page."""
    elements = Reader(text).elements
    loading = [tag for tag, _ in elements if tag in {"script", "link", "img", "iframe", "object", "image", "base"}]
    values = [
        value
        for _, attributes in elements
        for name, value in attributes.items()
        if name in {"src", "href", "xlink:href", "srcset", "data"} and not (value or "").startswith("#")
    ]
    return loading + [value or "" for value in values] + re.findall(r"@import.*|url\((?!#)[^)]*", text)


def test_columns_of_a_text_table_are_aligned() -> None:
    """Texts stand left and figures right, also where characters are twice as wide; a line break stays in its line."""
    text = tables.as_text(table(("short", "1"), ("日本語", "22"), ("two\nlines", "333")))
    assert text.splitlines() == [
        "Figures",
        "  what         A",
        "  short        1",
        "  日本語      22",
        "  two lines  333",
    ]


def test_a_markdown_table_shows_every_character_as_it_is() -> None:
    """What would be markup is escaped, cells stay in their row, and names with underscores stay readable."""
    text = tables.as_markdown(table((ODD, "1"), ("lr_warmup_iters", "2\n3")))
    lines = text.splitlines()
    assert lines[2:4] == ["| what | A |", "| --- | ---: |"]
    assert lines[5] == "| lr_warmup_iters | 2 3 |"
    assert lines[4] == (
        "| a_b \\_c\\_ \\*d\\* \\$e\\$ \\`f\\` \\[g\\](h) \\<i\\> j\\|k \\& \"l\" 'm' \\\\n \\#o \\~p\\~ | 1 |"
    )


def test_an_html_table_has_a_caption_and_headers() -> None:
    """Each cell belongs to a header of its row and one of its column, and its text is the one given."""
    found = Reader(tables.as_html(table((ODD, "<b>1</b>"))))
    scopes = [attributes.get("scope") for tag, attributes in found.elements if tag == "th"]
    assert scopes == ["col", "col", "row"]
    assert [tag for tag, _ in found.elements].count("caption") == 1
    assert ODD in "".join(found.text)
    assert "<b>1</b>" in found.text
    assert "b" not in [tag for tag, _ in found.elements]


def test_a_png_has_its_size_and_the_colour_of_every_series() -> None:
    """The image decodes to the size that is promised, white where nothing is drawn, with each line in its colour."""
    pixels = imread(io.BytesIO(drawing.png(chart())))
    assert pixels.shape[:2] == (
        round(drawing.HEIGHT * drawing.DOTS_PER_INCH),
        round(drawing.WIDTH * drawing.DOTS_PER_INCH),
    )
    assert pixels[0, -1, :3].tolist() == [1, 1, 1]
    for colour, drawn in [(COLOURS[0], True), (COLOURS[1], True), (COLOURS[2], False)]:
        near = np.abs(pixels[:, :, :3] - to_rgb(colour)).max(axis=2) < 0.02
        assert bool(near.sum() > 200) is drawn


def test_colours_can_be_told_from_light_and_dark_paper() -> None:
    """Every colour of a series has a contrast of 3 and more, what WCAG asks of graphics, to both."""
    for colour in COLOURS:
        for paper in ("#ffffff", "#121212"):
            dark, light = sorted(map(luminance, (colour, paper)))
            assert (light + 0.05) / (dark + 0.05) >= 3


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_an_svg_stands_alone() -> None:
    """It is a document of its own without a reference outside; ids are the chart's, text is text and takes the
    colour of the page, lines have their colours."""
    text = drawing.svg(chart(Series(name=ODD, x=[1, 2], y=[1, 2]), Series(name="_B", x=[1, 2], y=[2, 1])))
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert refers_outside(text) == []
    assert set(re.findall(r"https?://[^\"]*", text)) == {"http://www.w3.org/2000/svg"}
    identities = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    assert len(set(identities)) == len(identities)
    assert all(identity.startswith("loss-") for identity in identities)
    referred = re.findall(r"(?:href=\"|url\()#([^\")]*)", text)
    assert referred
    assert set(referred) <= set(identities)
    words = [(element.text or "").strip() for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {ODD, "_B", "iteration", "loss (nats per token)"} <= set(words)
    assert "style" not in {element.tag.rpartition("}")[2] for element in root.iter()}
    assert all(colour in text for colour in (*COLOURS[:2], "currentColor"))
    assert "#000000" not in text
    assert root.attrib["aria-label"] == described(
        chart(Series(name=ODD, x=[1, 2], y=[1, 2]), Series(name="_B", x=[1, 2], y=[2, 1]))
    )


def test_a_long_name_is_cut_in_its_middle() -> None:
    """The legend keeps where a name begins and how it ends; the words of the chart have all of it."""
    text = drawing.svg(chart(Series(name=f"first {'x' * 200} last", x=[1, 2], y=[1, 2])))
    (shown,) = re.findall(r">(first x+\.\.\.x+ last)<", text)
    assert len(shown) < 100
    assert f"first {'x' * 200} last: 1 at 1" in text


def test_the_same_chart_gives_the_same_bytes() -> None:
    """Neither the moment nor what was drawn before is in an image."""
    before = drawing.png(chart()), drawing.svg(chart())
    drawing.svg(chart(name="other"))
    assert (drawing.png(chart()), drawing.svg(chart())) == before


@pytest.mark.parametrize("y", [[], [1.0], [math.nan, math.inf], [1.0, math.nan, 3.0], [0.0] * 5, [1e300, -1e300]])
def test_any_series_is_drawn(y: list[float], recwarn: pytest.WarningsRecorder) -> None:
    """No point, one point, values that are no numbers or huge: there is an image and no warning."""
    odd = chart(Series(name="字", x=range(len(y)), y=y))
    assert drawing.png(odd).startswith(b"\x89PNG")
    assert drawing.svg(odd).startswith("<svg ")
    assert list(recwarn) == []


def test_a_chart_in_words() -> None:
    """Of each series, where it begins and ends and its range; what is not finite is passed over."""
    odd = chart(Series(name="A", x=[1, 2, 3, 4], y=[5.5, 0.25, 7, math.nan]), Series(name="B", x=[1], y=[math.inf]))
    assert described(odd) == (
        "Loss: loss (nats per token) over iteration. A: 5.5 at 1, 7 at 3, between 0.25 and 7. B: no point."
    )


PAGE = Page(title=f"Report {ODD}", blocks=(Paragraph(ODD), chart(), table(("a", "1")), chart(name="speed")))


def test_a_page_is_one_file_that_needs_nothing_else() -> None:
    """HTML holds its charts with a text for who cannot see them, refers to nothing outside, runs no script, and
    follows the reader's choice of light or dark; no id is there twice."""
    text = pages.as_html(PAGE, drawing.svg)
    found = Reader(text)
    assert refers_outside(text) == []
    images = [attributes for tag, attributes in found.elements if tag == "svg"]
    assert [image["aria-label"] for image in images] == [described(one) for one in PAGE.charts]
    assert ("meta", {"name": "color-scheme", "content": "light dark"}) in found.elements
    identities = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(set(identities)) == len(identities)
    assert "".join(found.text).count(ODD) == 3  # of the title, the heading and the paragraph


def test_a_page_keeps_its_order() -> None:
    """Terminal, Markdown and HTML tell the blocks from top to bottom; a terminal leaves out charts, and Markdown
    those that have no image."""
    assert [part.splitlines()[0] for part in pages.as_text(PAGE).split("\n\n")] == [PAGE.title, ODD, "Figures"]
    text = pages.as_markdown(PAGE, {"loss": "loss.png"})
    places = [text.index(part) for part in ("# Report", "\n\na_b", "](loss.png)", "## Figures")]
    assert all(before < after for before, after in pairwise(places))
    assert "speed" not in text
    html = pages.as_html(PAGE, lambda one: f"<i>{one.name}</i>")
    places = [html.index(part) for part in ("<h1>", "<p>", "<i>loss</i>", "<table>", "<i>speed</i>")]
    assert all(before < after for before, after in pairwise(places))
