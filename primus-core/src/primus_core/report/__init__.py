"""What became of a run: the reports of its ranks merged, and told in one screen."""

from primus_core.report.attempts import attempts, attempts_folder
from primus_core.report.launcher import lacks_module, launcher_lines
from primus_core.report.merge import clear, merge, read, write
from primus_core.report.screen import screen, summary

__all__ = [
    "attempts",
    "attempts_folder",
    "clear",
    "lacks_module",
    "launcher_lines",
    "merge",
    "read",
    "screen",
    "summary",
    "write",
]
