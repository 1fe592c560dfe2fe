"""What the launcher itself said, where the ranks said nothing."""

from __future__ import annotations

import re

from primus_core.rundir import RunDir

LINES = 12
_TAIL_BYTES = 1 << 16
_NO_MODULE = re.compile(r"No module named|ModuleNotFoundError|command not found|No such file or directory: 'torchrun'")


def launcher_lines(rundir: RunDir, host: int = 0) -> tuple[str, ...]:
    """The last lines of ``submission/host-N.log``; none where there is no such file."""
    try:
        with (rundir.submission / f"host-{host}.log").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            return tuple(file.read().decode("utf-8", "replace").splitlines()[-LINES:])
    except FileNotFoundError:
        return ()


def lacks_module(rundir: RunDir) -> bool:
    """Whether the launcher ended because a library is not installed, such as torch for torchrun."""
    return any(_NO_MODULE.search(line) for line in launcher_lines(rundir)[-3:])
