"""What a forked rank runs: Megatron's own model, once for each rank of each case that was prepared."""

from __future__ import annotations

from typing import Any

from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def measure(plan: RunPlan, rank: RankContext) -> list[list[dict[str, Any]]]:
    """By case and by its ranks, the figures of `tests.megatron.truth.building.measured`."""
    from tests.megatron.truth.building import measured

    cases: Any = rank.prepared("truth")["cases"]
    return [measured(case) for case in cases]
