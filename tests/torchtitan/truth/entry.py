"""What a forked rank runs: TorchTitan's own model, once for each rank of each case that was prepared."""

from __future__ import annotations

from typing import Any

from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def measure(plan: RunPlan, rank: RankContext) -> list[list[dict[str, Any]]]:
    """By case and by its ranks, the figures of `tests.torchtitan.truth.building.measured`."""
    from tests.torchtitan.truth.building import measured

    return [measured(case) for case in rank.prepared("truth")["cases"]]


def count(plan: RunPlan, rank: RankContext) -> int:
    """What `tests.torchtitan.truth.operations.counted` found in the case that was prepared."""
    from tests.torchtitan.truth.operations import counted

    return counted(rank.prepared("live"))


def mixture(plan: RunPlan, rank: RankContext) -> dict[str, int]:
    """The figures of `tests.torchtitan.truth.mixture.measured`."""
    from tests.torchtitan.truth.mixture import measured

    return measured(rank.prepared("truth"))


def live(plan: RunPlan, rank: RankContext) -> list[dict[str, Any]]:
    """By case what `tests.torchtitan.truth.live_step.measured` found, or an ``error``."""
    from tests.torchtitan.truth.live_step import attempted

    return [attempted(case) for case in rank.prepared("live")["cases"]]
