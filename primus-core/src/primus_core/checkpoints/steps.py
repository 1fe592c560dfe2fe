"""Which steps a folder holds checkpoints of."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

_LISTED = 12


def numbered_folders(folder: str | Path, prefix: str) -> dict[int, Path]:
    """Subfolders named by prefix and number (``iter_0000010``, ``step-10``), in the order of their numbers.

    Empty where the folder does not exist or may not be read.
    """
    pattern = re.compile(rf"{re.escape(prefix)}([0-9]{{1,18}})")
    try:
        with os.scandir(folder) as entries:
            found = {entry.name: Path(entry.path) for entry in entries if entry.is_dir()}
    except OSError:
        return {}
    matches = ((pattern.fullmatch(name), path) for name, path in found.items())
    return dict(sorted((int(match[1]), path) for match, path in matches if match))


def list_steps(steps: Sequence[int]) -> str:
    """Steps as text, oldest first; of many the first and the last ones: ``10, 20, ... 90, 100 (10 in all)``."""
    ordered = sorted(steps)
    if len(ordered) <= _LISTED:
        return ", ".join(map(str, ordered))
    half = _LISTED // 2
    first, last = ", ".join(map(str, ordered[:half])), ", ".join(map(str, ordered[-half:]))
    return f"{first}, ... {last} ({len(ordered)} in all)"
