"""The verdict, what is wrong, where, and what to do, on one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from primus_core.render.tables import one_line
from primus_preflight.judging import Fault, Report
from primus_preflight.judging.names import Names
from primus_preflight.reporting.story import about, counts_of, headline

_WIDTH = 116
_LEVEL = 9
_MOST_FAULTS = 12
_MOST_SEEN = 3


def screen(report: Report) -> str:
    """Text of a terminal; warnings follow what is worse."""
    names = Names.of(report.gathered)
    lines = [*_wrapped(about(report), ""), ""]
    for fault in report.faults[:_MOST_FAULTS]:
        lines += _fault(fault, names)
    left = len(report.faults) - _MOST_FAULTS
    if left > 0:
        lines.append(f"{left:,} more in report.json")
    if report.faults:
        lines.append("")
    return "\n".join([*lines, f"{headline(report)} ({counts_of(report)})"])


def _fault(fault: Fault, names: Names) -> Iterator[str]:
    where = names.some(fault.nodes)
    yield from _wrapped(f"{where}: {fault.what}" if where else fault.what, f"{fault.level:<{_LEVEL}}")
    for seen in fault.evidence[:_MOST_SEEN]:
        yield from _wrapped(seen, " " * (_LEVEL + 2))
    if fault.remedy:
        yield from _wrapped(f"-> {fault.remedy}", " " * (_LEVEL + 2))


def _wrapped(text: str, first: str) -> list[str]:
    return textwrap.wrap(one_line(text), _WIDTH, initial_indent=first, subsequent_indent=" " * len(first))
