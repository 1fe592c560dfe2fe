"""Floating-point operations of Megatron's own training step, as PyTorch counts them while it runs."""

from __future__ import annotations

from typing import Any

from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def count(plan: RunPlan, rank: RankContext) -> int:
    """What a forked rank runs: of one step of one rank of the case that was prepared."""
    from tests.megatron.truth import live_fused, live_step
    from tests.truth.products import counting, per_step, told

    case: dict[str, Any] = rank.prepared("live")
    with counting(live_step) as counter, told(counter, live_fused.FlashAttention, "forward", "backward"):
        live_step.measured(case)
    return per_step(counter)
