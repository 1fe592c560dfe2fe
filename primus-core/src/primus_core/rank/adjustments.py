"""What a translation changed, for the log."""

from __future__ import annotations

from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def record_adjustments(plan: RunPlan, rank: RankContext) -> None:
    """One record for each parameter that reaches the library with another value than was asked; for all by rank 0."""
    if plan.translation is None or rank.rank != 0:
        return
    for row in plan.translation.adjusted:
        rank.log("info", "adjusted", path=row.path, asked=row.asked, used=row.used, why=row.why)
