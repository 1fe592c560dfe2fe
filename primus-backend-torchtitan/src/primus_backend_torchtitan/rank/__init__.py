"""The rank side of the TorchTitan back end: its hooks. Nothing heavy is imported before a hook is called."""

from __future__ import annotations

from collections.abc import Sequence

from primus_core.contract import RankContext
from primus_core.contract import rank as rank_hook
from primus_core.outcome import Finding, PatchReport, Where
from primus_core.plan import RunPlan


@rank_hook
def patch_backend(plan: RunPlan, rank: RankContext) -> PatchReport | None:
    """Apply the planned patches to torch and TorchTitan, which imports both."""
    if plan.framework != "torchtitan":
        return None
    from primus_core.patching import apply_patches

    rank.phase("import")
    return apply_patches(plan, rank)


@rank_hook
def preflight_check(plan: RunPlan, where: Where) -> Sequence[Finding]:
    """Whether this node has the packages that the experiment's choices need."""
    if plan.framework != "torchtitan" or where is not Where.NODE:
        return ()
    from primus_backend_torchtitan.host.packages import check_packages

    return check_packages(plan, here=True)
