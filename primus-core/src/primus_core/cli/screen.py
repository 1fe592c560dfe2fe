"""How an error looks: what, where, why, what to do; never more than a screen."""

from __future__ import annotations

from textwrap import indent

from primus_core.errors import ErrorGroup, PrimusError

_MOST_PROBLEMS = 8
_MOST_LINES = 12
"""Problems, and lines of one explanation, that are shown; the others are counted."""


def error_screen(error: Exception) -> str:
    """Text for the terminal, ending with a newline."""
    if isinstance(error, ErrorGroup):
        shown = "\n".join(_one(problem) for problem in error.errors[:_MOST_PROBLEMS])
        more = len(error.errors) - _MOST_PROBLEMS
        return shown + (f"\n... and {more} more\n" if more > 0 else "")
    if isinstance(error, PrimusError):
        return _one(error)
    return (
        f"error: internal: {type(error).__name__}: {error}\n"
        "  try: this is a bug in Primus; run again with --debug for the traceback and report it\n"
    )


def _one(error: PrimusError) -> str:
    lines = [f"error: {error.what}"]
    if error.where:
        lines.append(f"  at:  {error.where}")
    if error.why:
        lines.append(f"  why: {_indented(error.why)}")
    if error.remedy:
        lines.append(f"  try: {_indented(error.remedy)}")
    return "\n".join(lines) + "\n"


def _indented(text: str) -> str:
    lines = text.strip().splitlines()
    more = len(lines) - _MOST_LINES
    shown = [*lines[:_MOST_LINES], *([f"... and {more} more lines"] if more > 0 else [])]
    return indent("\n".join(shown), "       ").strip()
