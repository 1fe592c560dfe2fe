"""Which checkpoint a run starts from: decided once, before Megatron looks, and never silently a random start."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from primus_backend_megatron.checkpoints import (
    Checkpoint,
    checkpoint_folder,
    is_saving,
    latest,
    marked_checkpoints,
    newest_checkpoint,
)
from primus_core.errors import RunError


def choose_checkpoint(args: Namespace, *, auto_continue: bool) -> Checkpoint | None:
    """Set ``load`` and ``ckpt_step``; the checkpoint that will be loaded, or None for a fresh start.

    With ``auto_continue`` the whole checkpoint that was last written to ``save`` wins over ``load``: the run that was
    begun is continued, with its optimizer, data position and random numbers.

    Raises:
        RunError: ``load`` was given, but it holds no whole checkpoint, or not the one that ``ckpt_step`` names.
    """
    own = latest(marked_checkpoints(args.save)) if auto_continue and args.save else None
    if own:
        _continue(args, own)
        return own
    folder = args.load or args.pretrained_checkpoint
    if not folder:
        return None
    chosen = _find(args)
    if chosen is None:
        raise _missing(folder, args.ckpt_step)
    if chosen.marked and chosen.folder.parent == Path(args.load or ""):
        args.ckpt_step = chosen.iteration
    return chosen


def _find(args: Namespace) -> Checkpoint | None:
    """In ``load``, else, as Megatron does, in ``pretrained_checkpoint``."""
    if args.load and args.ckpt_step:
        return _requested(args.load, args.ckpt_step)
    found = newest_checkpoint(args.load) if args.load else None
    return found or (newest_checkpoint(args.pretrained_checkpoint) if args.pretrained_checkpoint else None)


def _continue(args: Namespace, checkpoint: Checkpoint) -> None:
    args.load = args.save
    args.ckpt_step = checkpoint.iteration
    # How the run was begun must not undo what it has done since.
    args.finetune = args.no_load_optim = args.no_load_rng = False
    args.pretrained_checkpoint = None


def _requested(load: str, iteration: int) -> Checkpoint | None:
    marked = {item.iteration: item for item in marked_checkpoints(load)}
    folder = checkpoint_folder(load, iteration)
    if iteration in marked:
        return marked[iteration]
    # A folder without any marker of ours was written by others; there the user's word counts.
    if marked or is_saving(load, iteration) or not folder.is_dir():
        return None
    return Checkpoint(folder=folder, iteration=iteration, marked=False)


def _missing(load: str, iteration: int | None) -> RunError:
    whole = [item.iteration for item in marked_checkpoints(load)]
    named = f" of iteration {iteration}" if iteration else ""
    if not Path(load).is_dir():
        why = "the folder does not exist"
    elif whole:
        why = f"whole checkpoints: {', '.join(map(str, whole))}"
    else:
        why = "neither a marker of Primus nor Megatron's tracker file names a whole one"
    return RunError(
        f"there is no whole checkpoint{named} in {load}",
        where="load",
        why=why,
        remedy="Correct load or ckpt_step, or remove them to start from random weights.",
    )
