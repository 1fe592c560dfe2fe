"""How an error looks: what, where, why, what to do; never more than a screen."""

from __future__ import annotations

from textwrap import indent

from primus_core.errors import ErrorGroup, PrimusError

_MOST = 12
"""Problems shown in full; the others are counted."""


def error_screen(error: Exception) -> str:
    """Text for the terminal, ending with a newline."""
    if isinstance(error, ErrorGroup):
        shown = "\n".join(_one(problem) for problem in error.errors[:_MOST])
        more = len(error.errors) - _MOST
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
        lines.append(f"  why: {indent(error.why, '       ').strip()}")
    if error.remedy:
        lines.append(f"  try: {indent(error.remedy, '       ').strip()}")
    return "\n".join(lines) + "\n"
