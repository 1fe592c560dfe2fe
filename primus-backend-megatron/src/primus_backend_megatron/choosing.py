"""Which checkpoint a run starts from; hosts ask before anything is started, ranks before Megatron looks.

Standard library only.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from attrs import frozen

from primus_backend_megatron.checkpoints import (
    FOLDER,
    Checkpoint,
    checkpoint_folder,
    checkpoint_steps,
    is_saving,
    latest,
    marked_checkpoints,
    newest_checkpoint,
)
from primus_core.checkpoints.steps import list_steps


@frozen(kw_only=True)
class Wish:
    """The parameters that decide, by Megatron's names."""

    save: str | None = None
    load: str | None = None
    pretrained_checkpoint: str | None = None
    ckpt_step: int | None = None
    auto_continue: bool = False
    """The whole checkpoint that was last written to ``save`` wins over ``load``."""


@frozen(kw_only=True)
class Choice:
    """What a run starts from."""

    checkpoint: Checkpoint | None
    """None: random weights, as asked."""
    continues: bool = False
    """It is the run's own: optimizer, data position and random numbers go on, however the run was begun."""
    pretrained: bool = False
    """It is that of ``pretrained_checkpoint``, which Megatron takes the weights of alone."""


class Missing(Exception):
    """A checkpoint was asked for and is not there."""

    def __init__(self, parameter: str, what: str, why: str, remedy: str) -> None:
        super().__init__(what)
        self.parameter = parameter
        """Megatron's name of the parameter that asks for it."""
        self.what = what
        self.why = why
        self.remedy = remedy


def choose(wish: Wish) -> Choice:
    """The checkpoint to start from, never silently none where one was asked for.

    A run that saves where it loads, and continues itself, starts afresh while that folder is empty.

    Raises:
        Missing: the folder that is asked for has no whole checkpoint, or not the one of ``ckpt_step``.
    """
    own = latest(marked_checkpoints(wish.save)) if wish.auto_continue and wish.save else None
    if own:
        return Choice(checkpoint=own, continues=True)
    if wish.load and not (wish.pretrained_checkpoint and not _has_any(wish.load)):
        if wish.auto_continue and wish.save and _same(wish.load, wish.save) and not _has_any(wish.load):
            return Choice(checkpoint=None)
        return Choice(checkpoint=_find(wish.load, wish.ckpt_step, "load"))
    if wish.pretrained_checkpoint:
        found = _find(wish.pretrained_checkpoint, wish.ckpt_step, "pretrained_checkpoint")
        return Choice(checkpoint=found, pretrained=True)
    return Choice(checkpoint=None)


def _find(folder: str, step: int | None, parameter: str) -> Checkpoint:
    found = newest_checkpoint(folder) if step is None else _requested(folder, step)
    if found is None:
        raise _missing(folder, step, parameter)
    return found


def _requested(folder: str, step: int) -> Checkpoint | None:
    marked = {item.iteration: item for item in marked_checkpoints(folder)}
    path = checkpoint_folder(folder, step)
    if step in marked:
        return marked[step]
    # Megatron takes 0 for no wish. A folder without any marker of ours was written by others: their word counts.
    if step < 1 or marked or is_saving(folder, step) or not path.is_dir():
        return None
    return Checkpoint(folder=path, iteration=step, marked=False)


def _has_any(folder: str) -> bool:
    return newest_checkpoint(folder) is not None or bool(checkpoint_steps(folder))


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _missing(folder: str, step: int | None, parameter: str) -> Missing:
    named = "" if step is None else f" of iteration {step}"
    steps = checkpoint_steps(folder)
    whole = {item.iteration for item in marked_checkpoints(folder)}
    if not Path(folder).exists():
        why = "the folder does not exist"
    elif not Path(folder).is_dir():
        why = "it is no folder"
    elif hindrance := _hindrance(folder):
        why = f"it may not be read: {hindrance}"
    elif whole:
        why = f"whole checkpoints: {list_steps(sorted(whole))}"
    elif steps and step is not None:
        why = f"checkpoints: {list_steps(steps)}"
    elif steps:
        why = f"neither a marker of Primus nor Megatron's tracker file names a whole one among {list_steps(steps)}"
    else:
        why = "neither a marker of Primus nor Megatron's tracker file names a whole one"
    what = f"there is no whole checkpoint{named} in {folder}"
    return Missing(
        "ckpt_step" if steps and step is not None else parameter, what, why, _remedy(folder, step, parameter)
    )


def _hindrance(folder: str) -> str:
    try:
        os.listdir(folder)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _remedy(folder: str, step: int | None, parameter: str) -> str:
    path = Path(folder)
    away = f"Correct {parameter}{'' if step is None else ' or load_step'}, or remove them to start from random weights."
    if (match := FOLDER.fullmatch(path.name)) and path.is_dir():
        return f"Name the folder above it, {path.parent}, and set load_step to {int(match[1])}."
    if near := _nearby(path):
        return f"Did you mean {near}? Else remove {parameter} to start from random weights."
    return away


def _nearby(path: Path) -> Path | None:
    """A folder with checkpoints whose name is like a missing one's, or that is just below."""
    below = path / "checkpoints"
    if path.is_dir():
        return below if checkpoint_steps(below) else None
    names = [item.name for item in path.parent.iterdir()] if os.access(path.parent, os.R_OK | os.X_OK) else []
    near = difflib.get_close_matches(path.name, names, n=1)
    return path.parent / near[0] if near else None
