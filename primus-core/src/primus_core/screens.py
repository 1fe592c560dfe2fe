"""How problems look: what, where, why, what to do; never more than a screen. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent
from typing import Protocol

MOST_PROBLEMS = 8
MOST_LINES = 12
"""Problems, and lines of one explanation, that are shown; the others are counted."""
LONGEST_LINE = 400
"""Characters; longer only where somebody's value or name stands in it."""


class Problem(Protocol):
    """What can be told: a `primus_core.errors.PrimusError`, or a `primus_core.outcome.Problem` of a report."""

    @property
    def what(self) -> str: ...
    @property
    def where(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def remedy(self) -> str: ...


def problem_lines(problems: Sequence[Problem], *, who: str = "") -> list[str]:
    """Lines for the terminal.

    Args:
        who: whose problem it is, ``rank 3 failed``; empty for the command's own.
    """
    lead = f"error: {who}: " if who else "error: "
    lines = [line for problem in problems[:MOST_PROBLEMS] for line in _one(problem, lead)]
    more = len(problems) - MOST_PROBLEMS
    return [*lines, f"... and {more} more"] if more > 0 else lines


def _one(problem: Problem, lead: str) -> list[str]:
    parts = (("at: ", problem.where), ("why:", problem.why), ("try:", problem.remedy))
    return [f"{lead}{_cut(problem.what)}", *(f"  {name} {_indented(text)}" for name, text in parts if text)]


def _indented(text: str) -> str:
    lines = text.strip().splitlines()
    more = len(lines) - MOST_LINES
    shown = [*map(_cut, lines[:MOST_LINES]), *([f"... and {more} more lines"] if more > 0 else [])]
    return indent("\n".join(shown), "       ").strip()


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}..."
