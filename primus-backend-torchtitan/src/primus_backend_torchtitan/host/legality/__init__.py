"""Whether TorchTitan can build and divide the model as the experiment asks. World size and batch are core's checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from primus_backend_torchtitan.host.case import Case
from primus_backend_torchtitan.host.legality.experts import check_experts
from primus_backend_torchtitan.host.legality.family import check_family
from primus_backend_torchtitan.host.legality.mixture import check_latent, check_mixture
from primus_backend_torchtitan.host.legality.pipeline import check_pipeline
from primus_backend_torchtitan.host.legality.ranks import check_ranks
from primus_backend_torchtitan.host.legality.recompute import check_recompute
from primus_backend_torchtitan.host.legality.sequence import check_sequence
from primus_backend_torchtitan.host.legality.shards import check_shards
from primus_backend_torchtitan.host.legality.tensor import check_tensor
from primus_backend_torchtitan.host.legality.weights import check_weights
from primus_core.outcome import Finding
from primus_core.plan import RunPlan

_CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    check_family,
    check_tensor,
    check_sequence,
    check_pipeline,
    check_latent,
    check_mixture,
    check_experts,
    check_shards,
    check_ranks,
    check_recompute,
    check_weights,
)


def check_plan(plan: RunPlan) -> tuple[Finding, ...]:
    """All findings about a plan for TorchTitan; none for a plan without a translation."""
    if plan.translation is None or plan.experiment is None or plan.module is None:
        return ()
    case = Case.of(plan, plan.translation, plan.experiment.modules[plan.module])
    return tuple(finding for check in _CHECKS for finding in check(case))
