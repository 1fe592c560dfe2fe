"""Megatron's checkpoints: which of a folder are whole. Standard library only: hosts and ranks both ask.

Those of ours have a marker (`primus_core.checkpoints.folders`). Other people's have none; for them Megatron's own
tracker file is believed, unless a ``.saving`` file says that we were overwriting that very checkpoint.
"""

from __future__ import annotations

from pathlib import Path

from primus_core.checkpoints.choosing import Library
from primus_core.checkpoints.folders import LIBRARIES, Checkpoint

TRACKER = "latest_checkpointed_iteration.txt"
"""Megatron's file that names the newest checkpoint."""

NAMING = LIBRARIES["Megatron"]


def tracked_iteration(save: str | Path) -> int | None:
    """The iteration that Megatron's tracker file names; None without one."""
    text = _tracker_text(Path(save))
    return int(text) if text.isdecimal() else None


def _tracked(folder: Path) -> Checkpoint | None:
    iteration = tracked_iteration(folder)
    if iteration is None:
        return _release(folder)
    candidate = NAMING.folder(folder, iteration)
    if NAMING.is_saving(folder, iteration) or not candidate.is_dir():
        return None
    return Checkpoint(folder=candidate, iteration=iteration, marked=False)


def _release(folder: Path) -> Checkpoint | None:
    """A published checkpoint: weights only, and no iteration to continue from."""
    released = _tracker_text(folder) == "release" and (folder / "release").is_dir()
    return Checkpoint(folder=folder / "release", iteration=0, marked=False) if released else None


def _tracker_text(folder: Path) -> str:
    try:
        return (folder / TRACKER).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


MEGATRON = Library(name="Megatron", newest=_tracked, holds_for_whole=Path.is_dir, voucher="Megatron's tracker file")
