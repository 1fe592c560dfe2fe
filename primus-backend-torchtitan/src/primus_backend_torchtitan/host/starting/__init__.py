"""Whether the checkpoint is there that a run would start from, and fits; before anything is started."""

from __future__ import annotations

from primus_backend_torchtitan.host.case import Case
from primus_backend_torchtitan.host.starting.checkpoint import check_checkpoint
from primus_core.outcome import Finding
from primus_core.plan import RunPlan


def check_files(plan: RunPlan) -> tuple[Finding, ...]:
    """All findings about the files of a plan for TorchTitan; none for a plan without a translation."""
    if plan.translation is None or plan.experiment is None or plan.module is None:
        return ()
    case = Case.of(plan, plan.translation, plan.experiment.modules[plan.module])
    return tuple(check_checkpoint(case, auto_continue=bool(plan.settings.values.get("auto_continue_train"))))
