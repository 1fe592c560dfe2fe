"""How an error of a command looks: what, where, why, what to do; never more than a screen."""

from __future__ import annotations

from primus_core.errors import PrimusError
from primus_core.screens import problem_lines


def error_screen(error: Exception) -> str:
    """Text for the terminal, ending with a newline."""
    if isinstance(error, PrimusError):
        return "\n".join(problem_lines(error.problems)) + "\n"
    return (
        f"error: internal: {type(error).__name__}: {error}\n"
        "  try: this is a bug in Primus; run again with --debug for the traceback and report it\n"
    )
