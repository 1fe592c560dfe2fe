"""Names and files are UTF-8, whatever the locale says."""

from __future__ import annotations

import os
import sys


def use_utf8() -> None:
    """Start this command again in Python's UTF-8 mode, where the locale is another (``LC_ALL=C PYTHONUTF8=0``).

    Else no path with an umlaut could be opened. The ranks inherit the mode.
    """
    if sys.getfilesystemencoding() == "utf-8" or sys.flags.utf8_mode:
        return
    interpreter, *arguments = sys.orig_argv
    again = [interpreter, "-X", "utf8", *arguments]
    os.execve(sys.executable, again, {**os.environ, "PYTHONUTF8": "1"})  # noqa: S606 - it is this very command
