"""What the launcher itself said, where the ranks said nothing."""

from __future__ import annotations

import re
from itertools import takewhile

from primus_core.rundir import RunDir

LINES = 12
_SEARCHED = 500
_ERROR = "error: "
"""How `primus_core.screens` begins."""
_TAIL_BYTES = 1 << 16
_NO_MODULE = re.compile(r"No module named|ModuleNotFoundError|command not found|No such file or directory: 'torchrun'")


def launcher_lines(rundir: RunDir, host: int = 0, *, most: int = LINES) -> tuple[str, ...]:
    """The last lines of ``submission/host-N.log``; none where there is no such file."""
    try:
        with (rundir.submission / f"host-{host}.log").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            return tuple(file.read().decode("utf-8", "replace").splitlines()[-most:])
    except FileNotFoundError:
        return ()


def told_error(rundir: RunDir) -> tuple[str, ...]:
    """The error with which a rank refused to start: its screen, without ``error: ``; empty where none did.

    What torchrun adds to it is longer, and says only that the rank ended.
    """
    lines = iter(launcher_lines(rundir, most=_SEARCHED))
    first = next((line for line in lines if line.startswith(_ERROR)), None)
    if first is None:
        return ()
    return (first.removeprefix(_ERROR), *takewhile(lambda line: line.startswith("  "), lines))


def lacks_module(rundir: RunDir) -> bool:
    """Whether the launcher ended because a library is not installed, such as torch for torchrun."""
    return any(_NO_MODULE.search(line) for line in launcher_lines(rundir)[-3:])
