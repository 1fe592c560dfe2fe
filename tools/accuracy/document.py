"""``docs/accuracy.md``: every comparison with its signed error."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from primus_core.quantities import memory_size
from primus_core.render.tables import markdown_text
from tools.accuracy.groups import Group
from tools.accuracy.rows import Outcome, Row

_PACKAGES = ("torch", "megatron-core", "torchtitan", "primus-core")
_HEAD = """\
# How true projections are

`make accuracy` writes this page anew{time}. {when}, Python {python}, {versions}.

Each row has the projected figure, the measured one, and by how much the projection is off: below zero, too low.
Nothing is fitted: a figure follows from the experiment by arithmetic alone, and no row has been used to set a number.
What only a GPU has (see [projection](projection.md)) is not compared here: no GPU was at hand.
"""


def document(outcomes: Mapping[Group, Outcome]) -> str:
    """The whole page."""
    seconds = sum(outcome.seconds for outcome in outcomes.values())
    head = _HEAD.format(
        time=f"; this time it took {seconds / 60:.0f} minutes" if seconds >= 60 else "",
        when=time.strftime("%Y-%m-%d", time.gmtime()),
        python=platform.python_version(),
        versions=", ".join(f"{name} {_version(name)}" for name in _PACKAGES),
    )
    return "\n".join([head, *_summary(outcomes), *(_section(group, outcome) for group, outcome in outcomes.items())])


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"


def _summary(outcomes: Mapping[Group, Outcome]) -> list[str]:
    lines = [
        "Rows that say why they are not judged are listed, and not among the lowest and the highest.",
        "",
        "| what | judged | exact | lowest | highest | allowed | listed | minutes | memory |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for group, outcome in outcomes.items():
        errors = [row.error for row in outcome.rows if row.error is not None and not row.note]
        low, high = (f"{min(errors):+.3f} %", f"{max(errors):+.3f} %") if errors else ("", "")
        exact, listed = sum(error == 0 for error in errors), len(outcome.rows) - len(errors)
        cells = (group.title, len(errors), exact, low, high, f"{group.allowed} %", listed or "", *_cost(outcome))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return [*lines, ""]


def _cost(outcome: Outcome) -> tuple[str, str]:
    """Minutes, and the largest process."""
    return f"{outcome.seconds / 60:.0f}", memory_size(outcome.memory) if outcome.memory else ""


def _section(group: Group, outcome: Outcome) -> str:
    lines = [f"## {group.title}", "", group.what, ""]
    if outcome.problem:
        lines += [f"**{markdown_text(outcome.problem)}**", ""]
    if outcome.rows:
        lines += [*_table(group, outcome.rows), ""]
    return "\n".join(lines)


def _table(group: Group, rows: Sequence[Row]) -> list[str]:
    head = f"| model | layout | projected ({group.unit}) | measured | off by | |"
    return [head, "| --- | --- | ---: | ---: | ---: | --- |", *(_line(row) for row in rows)]


def _line(row: Row) -> str:
    error = "" if row.error is None else f"{row.error:+.3f} %"
    why = "; ".join(filter(None, [row.note, *row.differences]))
    cells = (row.model, row.layout, _figure(row.projected), _figure(row.measured), error, why)
    return f"| {' | '.join(map(markdown_text, cells))} |"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
