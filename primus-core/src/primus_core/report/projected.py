"""The memory that a run was projected to need, kept in its folder, beside what its ranks measured."""

from __future__ import annotations

from attrs import frozen

from primus_core.codec import from_json
from primus_core.errors import ConfigError
from primus_core.log.console import topic_line
from primus_core.outcome import RunReport
from primus_core.plan import RunPlan
from primus_core.quantities import memory_size
from primus_core.rundir import RunDir


@frozen(kw_only=True)
class Projected:
    """``projection.json``: bytes of one rank, without the margin for what only a device has."""

    stage: int
    """The heaviest pipeline stage."""
    bytes: int
    """Of its rank, at most."""
    margin: int
    parameters: int = 0
    """Of the whole model; 0 in files of earlier versions."""
    has_activations: bool
    """Whether the back end told its operators: without them, only weights and the optimizer's state are in it."""


def read_projected(rundir: RunDir) -> Projected | None:
    """What was projected for a run; None where nothing was, or the file is damaged."""
    try:
        return from_json(Projected, rundir.projection.read_text(encoding="utf-8"), source=str(rundir.projection))
    except (OSError, UnicodeDecodeError, ConfigError):
        return None


def measured_memory(report: RunReport) -> int | None:
    """Bytes that were allocated at once on the device of the rank that needed most; None on CPUs."""
    return max((rank.peak_device_memory_bytes or 0 for rank in report.ranks), default=0) or None


def memory_lines(report: RunReport, plan: RunPlan, rundir: RunDir) -> list[str]:
    """Projected against measured; nothing for a run that was not projected.

    On CPUs only the whole process is measured, Python and its libraries included, which says nothing of tensors alone.
    """
    projected = read_projected(rundir)
    if projected is None:
        return []
    told = f"{memory_size(projected.bytes)} projected{'' if projected.has_activations else ' without activations'}"
    if plan.target.accelerator == "cpu":
        resident = max((rank.peak_memory_bytes for rank in report.ranks), default=0)
        whole = f"; the largest process had {memory_size(resident)}, libraries included" if resident else ""
        return [topic_line("memory", f"{told} for tensors{whole}")]
    measured = measured_memory(report)
    if measured is None or not projected.bytes:
        return [topic_line("memory", f"{told}, nothing measured")]
    error = (projected.bytes / measured - 1) * 100
    return [topic_line("memory", f"{told}, {memory_size(measured)} measured ({error:+.1f} %)")]
