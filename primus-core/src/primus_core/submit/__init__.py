"""Starting what a launcher asked for, showing what it says, and ending it cleanly."""

from primus_core.submit.console import Console
from primus_core.submit.detached import hand_over
from primus_core.submit.submission import submit

__all__ = ["Console", "hand_over", "submit"]
