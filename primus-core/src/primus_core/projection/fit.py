"""Whether a projected run fits on a device, with a margin for what only a device has."""

from __future__ import annotations

from attrs import field

from primus_core.projection.project import Projection, Stage
from primus_core.records import frozen

GIB = 1 << 30


@frozen(kw_only=True)
class Margin:
    """Memory that no arithmetic on the experiment tells."""

    name: str
    bytes: int
    why: str
    verified: bool = False
    """Learned from a run's own figures; else a rule of thumb that nothing here has been compared with."""


@frozen(kw_only=True)
class Fit:
    """A projection on a device."""

    needed: int
    """Bytes on the heaviest rank, margin included."""
    margin: tuple[Margin, ...] = field(default=())
    device: str = ""
    capacity: int | None = None
    """Bytes of the device; None: no device was named."""

    @property
    def fits(self) -> bool | None:
        """None where no device was named."""
        return None if self.capacity is None else self.needed <= self.capacity

    @property
    def spare(self) -> int | None:
        """Bytes that are left; negative: that are missing."""
        return None if self.capacity is None else self.capacity - self.needed


def margin_of(stage: Stage, ranks: int, learned: Margin | None = None) -> tuple[Margin, ...]:
    """What is set aside on the rank of a stage.

    Args:
        ranks: of the whole run; one alone needs no buffers to talk to others.
        learned: what a run told of what its allocator gave beyond the projection, instead of a rule of thumb.
    """
    talks = (Margin(name="communication", bytes=GIB, why="buffers of NCCL or RCCL"),) if ranks > 1 else ()
    return (
        Margin(name="context", bytes=GIB, why="the driver's context and the code of kernels"),
        learned or Margin(name="workspaces", bytes=GIB // 4, why="of the libraries that multiply matrices"),
        *talks,
        Margin(name="fragmentation", bytes=stage.activations // 20, why="5 % of what comes and goes in a step"),
    )


def learned_margin(measured: int, projected: int, run: str) -> Margin:
    """What a run's allocator gave beyond the run's own projection; nothing where it gave less.

    Args:
        measured: the peak of the heaviest rank, bytes.
        projected: for that rank, bytes.
        run: its name.
    """
    why = f"run {run} allocated so much beyond its projection"
    return Margin(name="workspaces", bytes=max(0, measured - projected), why=why, verified=True)


def fit(projection: Projection, margin: tuple[Margin, ...], device: str = "", capacity: int | None = None) -> Fit:
    """The heaviest rank on a device."""
    needed = projection.heaviest.bytes + sum(one.bytes for one in margin)
    return Fit(needed=needed, margin=margin, device=device, capacity=capacity)
