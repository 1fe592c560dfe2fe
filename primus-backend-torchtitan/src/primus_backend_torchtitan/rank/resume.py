"""Which checkpoint a run starts from: decided once, before TorchTitan looks, and never silently a random start."""

from __future__ import annotations

from attrs import evolve

from primus_backend_torchtitan.checkpoints import TITAN, wish_of
from primus_backend_torchtitan.rank.session import Session
from primus_core.checkpoints.choosing import Missing, choose, fresh_start, own_run
from primus_core.errors import RunError


def choose_start(session: Session) -> None:
    """Decide what `Checkpoints` loads, and say where that is nothing.

    Raises:
        RunError: ``load`` was given, but it holds no whole checkpoint, or not the one that ``load_step`` names.
    """
    auto_continue = bool(session.plan.settings.values.get("auto_continue_train"))
    wish = wish_of(session.native, auto_continue=auto_continue)
    wish = evolve(wish, own_run=own_run(session.plan.run_id, session.rank.env))
    try:
        choice = choose(TITAN, wish)
    except Missing as missing:
        raise RunError(missing.what, where=missing.parameter, why=missing.why, remedy=missing.remedy) from None
    session.start, session.huggingface = choice, choice.huggingface
    if session.huggingface:
        session.rank.notice("start", f"from the weights in {session.huggingface}")
    elif choice.checkpoint is None and (told := fresh_start(TITAN, wish.save, auto_continue=wish.auto_continue)):
        session.rank.notice("start", told)
