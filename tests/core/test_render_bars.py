"""Stacked bars as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from primus_core.render.bars import Bars, Part, described, svg

BARS = Bars(
    title="Memory <of> a rank",
    unit="GiB",
    labels=("stage 0", "stage 1"),
    parts=(Part(name="weights & more", sizes=(10.0, 20.0)), Part(name="activations", sizes=(30.0, 10.0))),
    limit=60.0,
    limit_name="a device",
)
_SVG = "{http://www.w3.org/2000/svg}"


def test_lengths_are_in_proportion() -> None:
    """Each part is as long as its size, beside the one before, and the limit stands where it belongs."""
    root = ET.fromstring(svg(BARS))
    rects = [one for one in root.iter(f"{_SVG}rect") if one.find(f"{_SVG}title") is not None]
    first, second, third, fourth = ((float(one.attrib["x"]), float(one.attrib["width"])) for one in rects)
    unit = first[1] / 10
    assert [round(width / unit, 3) for _, width in (first, second, third, fourth)] == [10, 30, 20, 10]
    assert round(second[0] - first[0] - first[1], 2) == 0
    (line,) = root.iter(f"{_SVG}line")
    assert round((float(line.attrib["x1"]) - first[0]) / unit, 2) == 60


def test_bars_are_told_in_words() -> None:
    """Who cannot see the bars hears their title and lengths."""
    assert described(BARS) == "Memory <of> a rank. stage 0: 40 GiB. stage 1: 30 GiB."
    assert "Memory &lt;of&gt; a rank" in svg(BARS)


def test_nothing_is_divided_by_nothing() -> None:
    """Bars of no length can be drawn."""
    empty = Bars(title="none", unit="GiB", labels=("stage 0",), parts=(Part(name="weights", sizes=(0.0,)),))
    ET.fromstring(svg(empty))
