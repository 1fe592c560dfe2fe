"""Which checkpoint a run starts from: decided once, before Megatron looks, and never silently a random start."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from primus_backend_megatron.checkpoints import MEGATRON
from primus_core.checkpoints.choosing import Choice, Missing, Wish, choose
from primus_core.errors import RunError


def choose_checkpoint(
    args: Namespace, *, load_hf: str | None = None, auto_continue: bool, own_run: str | None = None
) -> Choice:
    """Set ``load`` and ``ckpt_step``; what the run starts from.

    With ``auto_continue`` the whole checkpoint that was last written to ``save`` wins over ``load``: the run that was
    begun is continued, with its optimizer, data position and random numbers.

    Raises:
        RunError: ``load`` was given, but it holds no whole checkpoint, or not the one that ``ckpt_step`` names; or
            ``load_hf`` was given too.
    """
    wish = Wish(
        save=args.save,
        load=args.load,
        pretrained_checkpoint=args.pretrained_checkpoint,
        load_step=args.ckpt_step,
        load_hf=load_hf,
        auto_continue=auto_continue,
        own_run=own_run,
    )
    try:
        choice = choose(MEGATRON, wish)
    except Missing as missing:
        raise RunError(missing.what, where=missing.parameter, why=missing.why, remedy=missing.remedy) from None
    if choice.checkpoint is None:
        # Asked for or not, there is nothing in it: Megatron must not look, and not end for finding nothing.
        args.load = args.ckpt_step = None
    elif choice.continues:
        args.load = args.save
        # How the run was begun must not undo what it has done since.
        args.finetune = args.no_load_optim = args.no_load_rng = False
        args.pretrained_checkpoint = None
    take(args, choice)
    return choice


def take(args: Namespace, choice: Choice) -> None:
    """Have Megatron load the checkpoint that was chosen, where it would not find it by itself."""
    found = choice.checkpoint
    if found is not None and found.marked and (choice.damaged or found.folder.parent == Path(args.load or "")):
        args.ckpt_step = found.iteration
