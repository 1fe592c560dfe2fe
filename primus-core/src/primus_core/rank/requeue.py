"""The marker of a run that was stopped and wants to go on. Standard library only."""

from __future__ import annotations

import os

from primus_core.files import write_atomic
from primus_core.rank.ending import Ending
from primus_core.rank.files import pretty
from primus_core.rank.planfile import Brief
from primus_core.rank.state import State

NAME = "requeue.json"
"""In the run directory."""


def mark(brief: Brief, state: State, ending: Ending) -> None:
    """Rank 0 says that the run ended by a signal, in good order, before its last iteration."""
    if ending.stopped is None or brief.rank != 0:
        return
    told = {
        "run_id": brief.run_id,
        "signal": ending.stopped,
        "iteration": state.iteration,
        "checkpoint": state.result.get("checkpoint"),
        "time": ending.ended,
    }
    write_atomic(os.path.join(brief.run_dir, NAME), brief.redact(pretty(told)))
