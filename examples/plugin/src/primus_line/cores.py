"""The check `cores`: has this host a core for each rank?"""

from __future__ import annotations

import os
from collections.abc import Sequence

from primus_core.contract import host
from primus_core.outcome import Finding, Where
from primus_core.plan import RunPlan

CONTRACT = 1


@host
def preflight_check(plan: RunPlan, where: Where) -> Sequence[Finding]:
    """Warn of ranks that compute on a CPU and have to share a core of this host."""
    cores, ranks = len(os.sched_getaffinity(0)), plan.target.ranks_per_node
    if where is not Where.SUBMIT or plan.target.accelerator != "cpu" or ranks <= cores:
        return ()
    return [
        Finding(
            check="cores.shared",
            severity="warning",
            summary=f"{ranks} ranks share {cores} cores",
            evidence="ranks per node of the plan; cores that this process may use",
            remedy=f"`--nproc {cores}` gives each rank a core of its own.",
        )
    ]
