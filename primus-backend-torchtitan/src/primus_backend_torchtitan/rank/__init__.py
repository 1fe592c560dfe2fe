"""The rank side of the TorchTitan back end: its hooks. Nothing heavy is imported before a hook is called."""

from __future__ import annotations

from primus_core.contract import RankContext
from primus_core.contract import rank as rank_hook
from primus_core.outcome import PatchReport
from primus_core.plan import RunPlan


@rank_hook
def patch_backend(plan: RunPlan, rank: RankContext) -> PatchReport | None:
    """Apply the planned patches to torch and TorchTitan, which imports both."""
    if plan.framework != "torchtitan":
        return None
    from primus_core.patching import apply_patches

    rank.phase("import")
    return apply_patches(plan, rank)
