"""Whether Megatron can divide and train the model as the experiment asks. World size and batch are core's checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from primus_backend_megatron.host.legality.attention import check_attention
from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.legality.documents import check_documents
from primus_backend_megatron.host.legality.experts import check_experts
from primus_backend_megatron.host.legality.fsdp import check_fsdp
from primus_backend_megatron.host.legality.layout import check_layout
from primus_backend_megatron.host.legality.pipeline import check_pipeline
from primus_backend_megatron.host.legality.recompute import check_recompute
from primus_backend_megatron.host.legality.schedule import check_schedule
from primus_backend_megatron.host.legality.sequence import check_sequence
from primus_backend_megatron.host.legality.tensor import check_tensor
from primus_backend_megatron.host.legality.weights import check_weights
from primus_core.outcome import Finding
from primus_core.plan import RunPlan

_CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    check_tensor,
    check_pipeline,
    check_layout,
    check_experts,
    check_fsdp,
    check_attention,
    check_sequence,
    check_documents,
    check_schedule,
    check_recompute,
    check_weights,
)


def check_plan(plan: RunPlan) -> tuple[Finding, ...]:
    """All findings about a plan for Megatron; none for a plan without a translation."""
    if plan.translation is None or plan.experiment is None or plan.module is None:
        return ()
    case = Case.of(plan, plan.translation, plan.experiment.modules[plan.module])
    return tuple(finding for check in _CHECKS for finding in check(case))
