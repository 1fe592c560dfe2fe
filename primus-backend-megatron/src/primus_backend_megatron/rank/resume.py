"""Which checkpoint a run starts from: decided once, before Megatron looks, and never silently a random start."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from primus_backend_megatron.checkpoints import Checkpoint
from primus_backend_megatron.choosing import Missing, Wish, choose
from primus_core.errors import RunError


def choose_checkpoint(args: Namespace, *, auto_continue: bool) -> Checkpoint | None:
    """Set ``load`` and ``ckpt_step``; the checkpoint that will be loaded, or None for a fresh start.

    With ``auto_continue`` the whole checkpoint that was last written to ``save`` wins over ``load``: the run that was
    begun is continued, with its optimizer, data position and random numbers.

    Raises:
        RunError: ``load`` was given, but it holds no whole checkpoint, or not the one that ``ckpt_step`` names.
    """
    wish = Wish(
        save=args.save,
        load=args.load,
        pretrained_checkpoint=args.pretrained_checkpoint,
        ckpt_step=args.ckpt_step,
        auto_continue=auto_continue,
    )
    try:
        choice = choose(wish)
    except Missing as missing:
        raise RunError(missing.what, where=missing.parameter, why=missing.why, remedy=missing.remedy) from None
    if choice.checkpoint is None:
        # Asked for or not, there is nothing in it: Megatron must not look, and not end for finding nothing.
        args.load = args.ckpt_step = None
    elif choice.continues:
        _continue(args, choice.checkpoint)
    elif choice.checkpoint.marked and choice.checkpoint.folder.parent == Path(args.load or ""):
        args.ckpt_step = choice.checkpoint.iteration
    return choice.checkpoint


def _continue(args: Namespace, checkpoint: Checkpoint) -> None:
    args.load = args.save
    args.ckpt_step = checkpoint.iteration
    # How the run was begun must not undo what it has done since.
    args.finetune = args.no_load_optim = args.no_load_rng = False
    args.pretrained_checkpoint = None
