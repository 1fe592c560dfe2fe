"""Which checkpoints of a folder are whole. Standard library only: hosts and ranks both ask.

A save goes through three states, each visible after a crash:

1. ``iter_N.saving`` beside the checkpoint says that ``iter_N`` is being written; an older marker in it is gone.
2. Megatron writes the checkpoint and then its tracker file.
3. ``iter_N/primus.json`` appears, in one step and last; then the ``.saving`` file goes.

So a checkpoint of ours is whole if and only if it has the marker. Other people's checkpoints have none; for them
Megatron's own tracker file is believed, unless a ``.saving`` file says that we were overwriting that very checkpoint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from primus_core.checkpoints.sidecar import to_text
from primus_core.checkpoints.steps import numbered_folders
from primus_core.files import write_atomic

MARKER = "primus.json"
"""Name of the file whose presence makes a checkpoint whole: a `primus_core.checkpoints.sidecar`."""
TRACKER = "latest_checkpointed_iteration.txt"
"""Megatron's file that names the newest checkpoint."""

FOLDER = re.compile(r"iter_([0-9]{7,18})")
"""Names of the folders of single checkpoints."""


@frozen(kw_only=True)
class Checkpoint:
    """One whole checkpoint."""

    folder: Path
    iteration: int
    marked: bool = True
    """Written by Primus; False: only Megatron's tracker file vouches for it."""
    written: float = 0.0
    """When Primus finished it, in seconds since the epoch; 0 where that is not known."""


def checkpoint_folder(save: str | Path, iteration: int) -> Path:
    """Where Megatron puts the checkpoint of an iteration."""
    return Path(save) / f"iter_{iteration:07d}"


def marked_checkpoints(save: str | Path) -> list[Checkpoint]:
    """The whole checkpoints that Primus wrote in a folder, oldest first; none when the folder does not exist."""
    found = [_marked(path) for path in Path(save).glob("iter_*")]
    return sorted((item for item in found if item), key=lambda item: item.iteration)


def checkpoint_steps(folder: str | Path) -> list[int]:
    """The iterations that a folder has checkpoints of, whole or not, whoever wrote them; oldest first."""
    found = numbered_folders(folder, "iter_")
    return [step for step, path in found.items() if FOLDER.fullmatch(path.name)]


def newest_checkpoint(folder: str | Path) -> Checkpoint | None:
    """The whole checkpoint that was written last, or None.

    That is not always the one of the highest iteration: an earlier run may have come further in the same folder.
    A folder that holds any checkpoint of ours is judged by our markers alone: the tracker file of a folder that we
    write in may name a checkpoint that a later run began to overwrite.
    """
    marked = marked_checkpoints(folder)
    return latest(marked) or _tracked(Path(folder))


def latest(checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """The one that was written last."""
    return max(checkpoints, key=lambda item: (item.written, item.iteration), default=None)


def begin_saving(save: str | Path, iteration: int) -> None:
    """Say that a checkpoint is about to be written. Every rank has to wait for this before it writes."""
    folder = checkpoint_folder(save, iteration)
    _saving(folder).parent.mkdir(parents=True, exist_ok=True)
    _saving(folder).touch()
    (folder / MARKER).unlink(missing_ok=True)


def finish_saving(save: str | Path, iteration: int, facts: Mapping[str, object]) -> Path:
    """Declare a checkpoint whole; ``facts`` become the marker's content. Returns the checkpoint's folder."""
    folder = checkpoint_folder(save, iteration)
    write_atomic(folder / MARKER, to_text({**facts, "step": iteration}))
    _saving(folder).unlink(missing_ok=True)
    return folder


def is_saving(save: str | Path, iteration: int) -> bool:
    """A checkpoint was begun and not finished."""
    return _saving(checkpoint_folder(save, iteration)).exists()


def is_whole(save: str | Path, iteration: int) -> bool:
    """Primus wrote a checkpoint of this iteration to its end."""
    return (checkpoint_folder(save, iteration) / MARKER).is_file()


def tracked_iteration(save: str | Path) -> int | None:
    """The iteration that Megatron's tracker file names; None without one."""
    text = _tracker_text(Path(save))
    return int(text) if text.isdecimal() else None


def begin_deleting(save: str | Path, iteration: int) -> None:
    """Take a checkpoint's marker away before its files go, so that a half-deleted one is never taken."""
    (checkpoint_folder(save, iteration) / MARKER).unlink(missing_ok=True)


def _marked(folder: Path) -> Checkpoint | None:
    match = FOLDER.fullmatch(folder.name)
    if match is None or not (folder / MARKER).is_file():
        return None
    return Checkpoint(folder=folder, iteration=int(match[1]), written=_written(folder / MARKER))


def _written(marker: Path) -> float:
    try:
        return float(json.loads(marker.read_text(encoding="utf-8"))["time"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def _tracked(folder: Path) -> Checkpoint | None:
    iteration = tracked_iteration(folder)
    if iteration is None:
        return _release(folder)
    candidate = checkpoint_folder(folder, iteration)
    if is_saving(folder, iteration) or not candidate.is_dir():
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


def _saving(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.saving")
