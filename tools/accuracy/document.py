"""``docs/accuracy.md``: every comparison with its signed error."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from primus_core.quantities import memory_size
from primus_core.render.tables import markdown_text
from tools.accuracy.groups import Group
from tools.accuracy.rows import Outcome, Row

_PACKAGES = ("torch", "megatron-core", "torchtitan", "primus-core")
_HEAD = """\
# How true projections are

`make accuracy` writes this page anew; all that is below took {minutes:.0f} minutes. Python {python}, {versions}.

Each row has the projected figure, the measured one, and by how much the projection is off: below zero, too low.
Nothing is fitted: a figure follows from the experiment by arithmetic alone, and no row has been used to set a number.
What only a GPU has (see [projection](projection.md)) is not compared here: no GPU was at hand.

"""
_SUMMARY = """\
Rows are within what is allowed or count as off. Some have limits of their own, for the reason that they tell; they are
not among the lowest and the highest. Without a measured figure a row tells why.

| what | rows | exact | lowest | highest | allowed | off | own limits | no figure | minutes | memory | date | commit |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |
"""
_MIXED = "**Groups were measured at different commits.**\n"


def document(outcomes: Mapping[Group, Outcome]) -> str:
    """The whole page."""
    head = _HEAD.format(
        minutes=sum(outcome.seconds for outcome in outcomes.values()) / 60,
        python=platform.python_version(),
        versions=", ".join(f"{name} {_version(name)}" for name in _PACKAGES),
    )
    mixed = len({outcome.tree for outcome in outcomes.values() if outcome.tree}) > 1
    summary = _SUMMARY + "".join(_summed(group, outcome) for group, outcome in outcomes.items())
    sections = [_section(group, outcome) for group, outcome in outcomes.items()]
    return "\n".join([head + summary, *([_MIXED] if mixed else []), *sections])


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"


def _summed(group: Group, outcome: Outcome) -> str:
    """A group's line of the summary."""
    rows = outcome.rows
    own = [row for row in rows if row.model in group.exceptions]
    errors = [row.error for row in rows if row.error is not None and row not in own]
    low, high = (f"{min(errors):+.3f} %", f"{max(errors):+.3f} %") if errors else ("", "")
    missing = sum(row.measured is None for row in rows)
    counts = (outcome.off(group), len(own) or "", missing or "")
    exact = sum(error == 0 for error in errors)
    memory = memory_size(outcome.memory) if outcome.memory else ""
    cost = (f"{outcome.seconds / 60:.0f}", memory, outcome.date, outcome.tree)
    return _cells(group.title, len(rows), exact, low, high, group.allowed, *counts, *cost)


def _section(group: Group, outcome: Outcome) -> str:
    lines = [f"## {group.title}\n\n{group.what} Allowed: {group.allowed}.\n\n"]
    if outcome.problem:
        lines.append(f"**{markdown_text(outcome.problem)}**\n\n")
    if outcome.rows:
        head = _cells("model", "layout", f"projected ({group.unit})", "measured", "off by", "allowed", "")
        lines += [head, "| --- | --- | ---: | ---: | ---: | ---: | --- |\n"]
        lines += [_line(row, group) for row in outcome.rows]
    return "".join(lines)


def _line(row: Row, group: Group) -> str:
    error = "" if row.error is None else f"{row.error:+.3f} %"
    own = group.exceptions.get(row.model)
    off = ["off"] if row.is_off(group.limits(row.model)) else []
    why = "; ".join(filter(None, [*off, row.note, *row.differences]))
    return _cells(row.model, row.layout, _figure(row.projected), _figure(row.measured), error, own or "", why)


def _cells(*values: object) -> str:
    return f"| {' | '.join(markdown_text(str(value)) for value in values)} |\n"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
