"""Whether the files are there that a run would read, and whether its checkpoint fits; before anything is started."""

from __future__ import annotations

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.starting.checkpoint import check_checkpoint
from primus_backend_megatron.host.starting.paths import check_paths
from primus_core.outcome import Finding
from primus_core.plan import RunPlan


def check_files(plan: RunPlan) -> tuple[Finding, ...]:
    """All findings about the files of a plan for Megatron; none for a plan without a translation."""
    if plan.translation is None or plan.experiment is None or plan.module is None:
        return ()
    case = Case.of(plan, plan.translation, plan.experiment.modules[plan.module])
    return (
        *check_paths(case),
        *check_checkpoint(case, auto_continue=bool(plan.settings.values.get("auto_continue_train"))),
    )
