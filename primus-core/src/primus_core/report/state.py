"""Whether a run goes on, and what is known of it: its report, or what its ranks have left so far."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from attrs import frozen

from primus_core.lock import Holder, holder_of
from primus_core.outcome import RunReport
from primus_core.plan import RunPlan
from primus_core.report.attempts import attempts
from primus_core.report.merge import merge, read
from primus_core.rundir import RunDir

State = Literal["running", "ended", "lost"]
"""Of a run: ``lost``: nothing runs it any more, and not every rank left a report."""

PLANNED = "planned, and nothing has started it yet"


@frozen(kw_only=True)
class Standing:
    """A run as it stands."""

    run_id: str
    run_dir: str
    state: State
    holder: Holder | None
    """The process of ``primus run`` of one that goes on."""
    report: RunReport | None
    """Of a run that is lost or was started without ``primus run``: merged from what its ranks left. None: it goes on,
    or nothing of it is left."""
    earlier: tuple[RunReport, ...] = ()
    """Of the starts that failed before this one, in place."""


def standing(rundir: RunDir, plan: RunPlan) -> Standing:
    """Look at a run.

    Raises:
        ConfigError: its report is damaged.
    """
    holder = holder_of(rundir)
    report = None if holder else _report(rundir, plan)
    whole = report is not None and (rundir.report.exists() or len(report.ranks) == plan.target.world_size)
    state: State = "running" if holder else "ended" if whole else "lost"
    return Standing(
        run_id=plan.run_id,
        run_dir=str(rundir.path),
        state=state,
        holder=holder,
        report=report,
        earlier=attempts(rundir),
    )


def has_begun(found: Standing) -> bool:
    """A launcher was started for it, which has left at least its log."""
    return found.report is not None or any(RunDir(Path(found.run_dir)).submission.glob("host-*.log"))


def _report(rundir: RunDir, plan: RunPlan) -> RunReport | None:
    written = read(rundir)
    if written is not None:
        return written
    merged = merge(rundir, plan.target.world_size)
    return merged if merged.ranks else None
