"""The files that a launcher asks for, in the run directory."""

from __future__ import annotations

from pathlib import PurePosixPath

from primus_core.errors import DependencyError
from primus_core.files import write_atomic
from primus_core.plan import Submission
from primus_core.rundir import RunDir


def write_files(rundir: RunDir, submission: Submission) -> None:
    """Write them into ``submission/``.

    Raises:
        DependencyError: the launcher asks for a place outside of it.
        RunError: the run directory cannot be written.
    """
    for name, text in submission.files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise DependencyError(
                f"the launcher asks for a file outside the run directory: {name}",
                remedy="This is a fault of the launcher's package: report it there.",
            )
        try:
            write_atomic(rundir.submission / path, text)
        except OSError as error:
            raise rundir.unwritable(error) from None
