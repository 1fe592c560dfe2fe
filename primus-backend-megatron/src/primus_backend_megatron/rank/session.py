"""The run that this process trains, for code that the library calls and that gets no argument of ours."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar

from attrs import define, field

from primus_core.checkpoints.choosing import Choice
from primus_core.checkpoints.saver import Saver
from primus_core.checkpoints.torchfile import Tensor
from primus_core.contract import RankContext
from primus_core.plan import RunPlan


@define(kw_only=True)
class Session:
    """One training run in one rank."""

    plan: RunPlan
    rank: RankContext
    iteration: int = 0
    """The last finished one."""
    trained: bool = False
    """An iteration was finished in this run; else the weights are still those that were loaded."""
    saved: int | None = None
    """The iteration that was saved last, as it was begun."""
    stops: bool = False
    """The save that comes is the last one, because a signal asked for the end."""
    loss: float | None = None
    """Of the last finished iteration; None on ranks that do not compute it."""
    evaluated: list[float] = field(factory=list)
    """Losses of the evaluation that runs now, by data set."""
    unfinished_saves: list[int] = field(factory=list)
    """Iterations whose checkpoints are still being written in the background."""
    start: Choice = field(factory=lambda: Choice(checkpoint=None))
    """What the run starts from."""
    saver: Saver | None = None
    """What makes its checkpoints whole; None before the first one is saved."""
    checkpoint: str | None = None
    """Folder of the last whole checkpoint, as far as this rank knows."""
    huggingface: str | None = None
    """The Hugging Face folder whose weights the model begins with; None: random ones, or a checkpoint's."""
    saved_tokens: dict[int, int] = field(factory=dict)
    """Tokens that were trained on before each save, by its iteration; training goes on while one is written."""
    weights: Mapping[str, Tensor] | None = None
    """Global shapes of the model's weights; None until a checkpoint tells them."""
    flops: float | None = None
    """That the model needs for one token; None before the first iteration has ended."""
    phase: str = ""

    def enter(self, phase: str) -> None:
        """Say what the rank does now, unless that was the last thing it said."""
        if phase != self.phase:
            self.phase = phase
            self.rank.phase(phase)


CURRENT: ContextVar[Session] = ContextVar("primus_megatron_session")
"""Set by `primus_backend_megatron.rank.train.run`. Patches do nothing of their own while it is unset."""
