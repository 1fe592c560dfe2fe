"""Which checkpoints of a folder are whole. Standard library only: hosts and ranks both ask.

A save goes through three states, each visible after a crash:

1. ``NAME.saving`` beside the checkpoint says that ``NAME`` is being written; an older checkpoint of that name is gone.
2. The library writes the checkpoint; then each rank leaves the checksums of its files in the ``.saving`` folder.
3. ``NAME/primus.json`` appears, in one step and last, with the size and checksum of every file; then ``.saving`` goes.

So a checkpoint of ours is whole if and only if it has the marker, whatever library wrote it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from primus_core.checkpoints.sidecar import to_text
from primus_core.checkpoints.steps import numbered_folders
from primus_core.files import write_atomic

MARKER = "primus.json"
"""Name of the file whose presence makes a checkpoint whole: a `primus_core.checkpoints.sidecar`."""


@frozen(kw_only=True)
class Checkpoint:
    """One whole checkpoint."""

    folder: Path
    iteration: int
    marked: bool = True
    """Written by Primus; False: only the library that wrote it vouches for it."""
    written: float = 0.0
    """When Primus finished it, in seconds since the epoch; 0 where that is not known."""


@frozen(kw_only=True)
class Naming:
    """How a library names the folders of single checkpoints: ``iter_0000010``, ``step-10``."""

    prefix: str
    digits: int = 1
    """Zeros make shorter numbers as long."""

    def folder(self, save: str | Path, iteration: int) -> Path:
        """Where the library puts the checkpoint of an iteration."""
        return Path(save) / f"{self.prefix}{iteration:0{self.digits}d}"

    def iteration_of(self, name: str) -> int | None:
        """The iteration that a folder's name tells; None where it is not one of these names."""
        number = name.removeprefix(self.prefix)
        if number == name or not (number.isascii() and number.isdecimal() and len(number) <= _LONGEST):
            return None
        return int(number) if self.folder("", int(number)).name == name else None

    def steps(self, folder: str | Path) -> list[int]:
        """The iterations that a folder has checkpoints of, whole or not, whoever wrote them; oldest first."""
        found = numbered_folders(folder, self.prefix)
        return [step for step, path in found.items() if self.iteration_of(path.name) == step]

    def marked(self, folder: str | Path) -> list[Checkpoint]:
        """The whole checkpoints that Primus wrote in a folder, oldest first; none when the folder does not exist."""
        return sorted(self._marked(Path(folder)), key=lambda item: item.iteration)

    def begin_saving(self, save: str | Path, iteration: int) -> None:
        """Say that a checkpoint is about to be written. Every rank has to wait for this before it writes."""
        folder, saving = self.folder(save, iteration), self.saving(save, iteration)
        _remove(saving)
        saving.mkdir(parents=True)
        if folder.exists():
            put_aside(folder)

    def finish_saving(self, save: str | Path, iteration: int, facts: Mapping[str, object]) -> Path:
        """Declare a checkpoint whole; ``facts`` become the marker's content. Returns the checkpoint's folder."""
        folder = self.folder(save, iteration)
        write_atomic(folder / MARKER, to_text({**facts, "step": iteration}))
        _remove(self.saving(save, iteration))
        return folder

    def discard(self, save: str | Path, iteration: int) -> None:
        """Delete what a save that failed has written: it is of no use, and the disk may be full of it."""
        with contextlib.suppress(FileNotFoundError):  # nothing was written, or another rank does this too
            put_aside(self.folder(save, iteration))
        with contextlib.suppress(FileNotFoundError):
            _remove(self.saving(save, iteration))
        sweep(save)

    def saving(self, save: str | Path, iteration: int) -> Path:
        """The folder that is there while a checkpoint is written."""
        folder = self.folder(save, iteration)
        return folder.with_name(f"{folder.name}{_SAVING}")

    def unfinished(self, save: str | Path) -> list[int]:
        """The iterations whose checkpoints were begun and not finished: by this run now, or by one that was killed."""
        names = [path.name.removesuffix(_SAVING) for path in Path(save).glob(f"{self.prefix}*{_SAVING}")]
        return sorted(step for step in map(self.iteration_of, names) if step is not None)

    def is_saving(self, save: str | Path, iteration: int) -> bool:
        """A checkpoint was begun and not finished."""
        return self.saving(save, iteration).exists()

    def is_whole(self, save: str | Path, iteration: int) -> bool:
        """Primus wrote a checkpoint of this iteration to its end."""
        return (self.folder(save, iteration) / MARKER).is_file()

    def begin_deleting(self, save: str | Path, iteration: int) -> None:
        """Take a checkpoint's marker away before its files go, so that a half-deleted one is never taken."""
        (self.folder(save, iteration) / MARKER).unlink(missing_ok=True)

    def _marked(self, folder: Path) -> Iterator[Checkpoint]:
        for path in folder.glob(f"{self.prefix}*"):
            iteration = self.iteration_of(path.name)
            if iteration is not None and (path / MARKER).is_file():
                yield Checkpoint(folder=path, iteration=iteration, written=_written(path / MARKER))


_SAVING = ".saving"
_DELETING = ".deleting"
_LONGEST = 18
"""Digits of the largest number of an iteration."""

LIBRARIES: Mapping[str, Naming] = {
    "Megatron": Naming(prefix="iter_", digits=7),
    "TorchTitan": Naming(prefix="step-"),
}
"""By which another library's checkpoints are known, so that a run that cannot load them can say whose they are."""


def latest(checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """The one that was written last.

    That is not always the one of the highest iteration: an earlier run may have come further in the same folder.
    """
    return next(iter(newest_first(checkpoints)), None)


def newest_first(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """By when they were written."""
    return sorted(checkpoints, key=lambda item: (item.written, item.iteration), reverse=True)


def _written(marker: Path) -> float:
    try:
        return float(json.loads(marker.read_text(encoding="utf-8"))["time"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def put_aside(folder: Path) -> None:
    """Take a folder out of sight in one step; `sweep` deletes it."""
    folder.rename(folder.with_name(f".{folder.name}{_DELETING}-{time.time_ns()}"))


def sweep(save: str | Path) -> None:
    """Delete what was put aside, by this run or by one that was interrupted meanwhile; what cannot be deleted stays."""
    for path in Path(save).glob(f".*{_DELETING}-*"):
        shutil.rmtree(path, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
