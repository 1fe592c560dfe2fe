"""All files of a report, from one page and one record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from primus_core.codec import to_json
from primus_core.files import write_atomic
from primus_core.render.charts import Chart
from primus_core.render.figures import svg
from primus_core.render.pages import Drawing, Page, as_html, as_markdown
from primus_preflight.judging import Report
from primus_preflight.judging.report import FAULTY
from primus_preflight.reporting.junit import junit
from primus_preflight.reporting.story import FAILING, PASSING, whole

JSON, MARKDOWN, HTML, PDF, JUNIT = "report.json", "report.md", "report.html", "report.pdf", "report.junit.xml"
_PEOPLE_READ = 64
"""Of so many nodes, report.json has a line for each field."""


def write(report: Report, folder: Path) -> list[Path]:
    """Write all files; returns them.

    There is no PDF without the extra ``[report]``, and of one node that was only looked at: it costs more than that.

    Raises:
        OSError: the folder is not writable, or full.
    """
    page = whole(report)
    files = dict(_files(report, page))
    for name, content in files.items():
        write_atomic(folder / name, content)
    return [folder / name for name in files]


def _files(report: Report, page: Page) -> Iterator[tuple[str, str | bytes]]:
    yield JSON, to_json(report, indent=2 if len(report.nodes) <= _PEOPLE_READ else None)
    images = {}
    for block in page.blocks:
        if isinstance(block, Drawing):
            images[block.name] = f"report-{block.name}.svg"
            yield images[block.name], f"{svg(block.figure)}\n"
    yield MARKDOWN, f"{as_markdown(page, images)}\n"
    yield HTML, as_html(page, _undrawn)
    yield JUNIT, junit(report)
    yield from _hosts(report)
    worth = len(report.nodes) > 1 or report.comparisons
    if worth and (paper := _paper(page)) is not None:
        yield PDF, paper


def _hosts(report: Report) -> Iterator[tuple[str, str]]:
    """A host with two nodes of which one is bad is bad. Nodes whose names nobody knows are in neither file."""
    bad = {one.host for one in report.nodes if one.verdict in FAULTY and one.host}
    good = {one.host for one in report.nodes if one.host} - bad
    for name, hosts in ((FAILING, bad), (PASSING, good)):
        yield name, "".join(f"{host}\n" for host in sorted(hosts))


def _paper(page: Page) -> bytes | None:
    try:
        from primus_core.render.paper import pdf  # here: a preflight without the extra has all but this
    except ModuleNotFoundError:
        return None
    return pdf(page)


def _undrawn(chart: Chart) -> str:
    raise NotImplementedError(f"{chart.name}: reports of a preflight have drawings alone")
