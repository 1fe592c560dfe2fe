"""Whether the files are there that a run would read, and whether its checkpoint fits; before anything is started."""

from __future__ import annotations

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.starting.paths import CHECKPOINTS, check_paths
from primus_core.outcome import Finding
from primus_core.plan import RunPlan


def check_files(plan: RunPlan) -> tuple[Finding, ...]:
    """All findings about the files of a plan for Megatron; none for a plan without a translation."""
    if plan.translation is None or plan.experiment is None or plan.module is None:
        return ()
    case = Case.of(plan, plan.translation, plan.experiment.modules[plan.module])
    findings = tuple(check_paths(case))
    auto_continue = bool(plan.settings.values.get("auto_continue_train"))
    if auto_continue or any(case.values[name] not in (None, "") for name in (*CHECKPOINTS, "ckpt_step")):
        from primus_backend_megatron.host.starting.checkpoint import check_checkpoint  # here: most runs start afresh

        findings += tuple(check_checkpoint(case, auto_continue=auto_continue))
    return findings
