"""What a forked rank runs: TorchTitan's own model, once for each rank of each case that was prepared."""

from __future__ import annotations

from typing import Any

from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def measure(plan: RunPlan, rank: RankContext) -> list[list[dict[str, Any]]]:
    """By case and by its ranks, the figures of `tests.torchtitan.truth.building.measured`."""
    from tests.torchtitan.truth.building import measured

    return [measured(case) for case in rank.prepared("truth")["cases"]]
