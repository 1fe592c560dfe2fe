"""The run that this process trains, for code that the library calls and that gets no argument of ours."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field

from primus_core.checkpoints.choosing import Choice
from primus_core.checkpoints.settling import Peers, settle
from primus_core.contract import RankContext
from primus_core.errors import RunError
from primus_core.experiment import Value
from primus_core.plan import RunPlan

if TYPE_CHECKING:
    from primus_core.data.samples import Samples


@define(kw_only=True)
class Session:
    """One training run in one rank."""

    plan: RunPlan
    rank: RankContext
    native: Mapping[str, Value]
    samples: Mapping[str, Samples | None] = field(factory=dict)
    """Of training, validation and test data; None where the run needs none."""
    consumed: dict[str, int] = field(factory=dict)
    """Samples of each that all ranks together have read."""
    document_end: int | None = None
    """The token that ends a document; None where nobody knows it."""
    evaluated_where: str = ""
    """What the evaluation that runs now adds to its iteration, for people."""
    iteration: int = 0
    """The last finished one."""
    stops: bool = False
    """A signal asked for the end: after this iteration, which is saved."""
    loss: float | None = None
    """Of the last finished iteration; None on ranks that do not compute it."""
    checkpoint: str | None = None
    """Folder of the last whole checkpoint, as far as this rank knows."""
    start: Choice = field(factory=lambda: Choice(checkpoint=None))
    """What the run starts from."""
    huggingface: str | None = None
    """The Hugging Face folder whose weights the model begins with; None: random ones, or a checkpoint's."""
    phase: str = ""

    def settle(self, peers: Peers) -> None:
        """Take an older checkpoint where all ranks together find that the chosen one is damaged; say which it is.

        Raises:
            RunError: all that may be taken are damaged.
        """
        sums = bool(self.plan.settings.values.get("verify_checkpoint", True))
        self.start = settle(self.start, self.rank, peers, sums=sums)
        if chosen := self.start.checkpoint:
            self.iteration = chosen.iteration
            self.note_checkpoint(chosen.folder)
            self.rank.notice("resume", f"from {chosen.folder}")

    def note_checkpoint(self, folder: Path) -> None:
        """The last whole checkpoint is known."""
        self.checkpoint = str(folder)

    def enter(self, phase: str) -> None:
        """Say what the rank does now, unless that was the last thing it said."""
        if phase != self.phase:
            self.phase = phase
            self.rank.phase(phase)


CURRENT: ContextVar[Session] = ContextVar("primus_torchtitan_session")
"""Set by `primus_backend_torchtitan.rank.train.run`."""


def current() -> Session:
    """The run of this process.

    Raises:
        RunError: there is none; the component was built outside of Primus.
    """
    session = CURRENT.get(None)
    if session is None:
        raise RunError("a component of Primus was built outside of a run")
    return session
