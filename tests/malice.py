"""What a checkpoint from a stranger may hold."""

from __future__ import annotations

import os
from pathlib import Path

from attrs import frozen


@frozen
class Evil:
    """Pickled, it is a command that whoever unpickles it runs: the file of this name appears."""

    canary: Path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.canary}",)
