"""The order in which a pipeline's stages work, as torch's schedules need it. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import frozen


@frozen
class Schedule:
    """One of torch's pipeline schedules."""

    name: str
    """Spelled as TorchTitan compares it."""
    stages: Literal["one", "several", "two"]
    """On each rank."""
    folded: bool = False
    """The last stage is on the rank of the first, and so is the loss."""
    micro_batches: Literal["any", "rounds", "ranks", "stages"] = "any"
    """How many a step needs: a multiple of the rounds that the ranks make of them, or at least so many."""
    splits: bool = False
    """Gradients of a stage's inputs and of its weights are computed apart."""

    @property
    def least_stages(self) -> int:
        """On each rank."""
        return 1 if self.stages == "one" else 2

    def has(self, stages: int) -> bool:
        """Whether a rank may have so many stages."""
        return {"one": stages == 1, "two": stages == 2, "several": stages > 1}[self.stages]

    def allows(self, micro_batches: int, ranks: int, stages: int) -> bool:
        """Whether a step may have so many micro batches, with so many stages on all ranks together."""
        if self.micro_batches == "rounds":
            return micro_batches % max(1, micro_batches // ranks) == 0
        least = {"ranks": ranks, "stages": stages}.get(self.micro_batches, 1)
        return micro_batches >= least


_ALL = (
    Schedule("1F1B", "one", micro_batches="ranks"),
    Schedule("GPipe", "one"),
    Schedule("Interleaved1F1B", "several", micro_batches="rounds"),
    Schedule("InterleavedZeroBubble", "several", micro_batches="rounds", splits=True),
    Schedule("LoopedBFS", "several"),
    Schedule("ZBVZeroBubble", "two", folded=True, splits=True),
    Schedule("DualPipeV", "two", folded=True, micro_batches="stages", splits=True),
)
_BY_NAME: Mapping[str, Schedule] = {schedule.name.lower(): schedule for schedule in _ALL}

NAMES = tuple(schedule.name for schedule in _ALL)


def schedule_of(name: object) -> Schedule | None:
    """The schedule of a name in any case, as torch takes it; None where there is none."""
    return _BY_NAME.get(name.lower()) if isinstance(name, str) else None
