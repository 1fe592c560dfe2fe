"""The file that takes a rank's stacks: on SIGUSR2, and when it crashes."""

from __future__ import annotations

import faulthandler
import os
import signal


class Stacks:
    """``{run_dir}/ranks/rank-N.stacks``. The child writes it itself: it must work in a process that is broken."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  # stays open as long as the process
        self._start = os.path.getsize(path)

    def arm(self) -> None:
        """In the child: write all threads' stacks on fatal signals and on SIGUSR2."""
        faulthandler.enable(self._file)
        faulthandler.register(signal.SIGUSR2, self._file, all_threads=True, chain=False)

    def read(self) -> str:
        """What this child wrote."""
        with open(self._path, "rb") as file:
            file.seek(self._start)
            return file.read().decode("utf-8", "backslashreplace")

    def skip(self) -> None:
        """Leave what is written so far out of what `read` gives from now on."""
        self._start = os.path.getsize(self._path)

    def discard_if_empty(self) -> None:
        if os.path.getsize(self._path) == 0:
            os.unlink(self._path)
