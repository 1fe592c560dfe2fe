"""What of TorchTitan saves memory, and into how many more pipeline stages it cuts layers."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.host.case import PIPELINE, TENSOR, Case
from primus_backend_torchtitan.host.schedules import schedule_of
from primus_core.shape import Saving

_DIVIDES, _RESHARD = "parallelism.enable_sequence_parallel", "parallelism.fsdp_reshard_after_forward"
_RECOMPUTE, _LISTED = "activation_checkpoint.kind", "parallelism.module_fqns_per_model_part"
_SCHEDULE, _FILE = "parallelism.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule_csv"
_MOST_STAGES = 16
_TIMES_APART = "again for the gradient of each of its weights, not once: a step several times as long"


def savings_of(case: Case) -> tuple[Saving, ...]:
    """Those that the experiment does not use yet, the cheapest first."""
    return tuple(_savings(case))


def _savings(case: Case) -> Iterator[Saving]:
    if not case.values[_DIVIDES]:
        cost, alone = "no more work: ranks divide norms and residuals", case.size(TENSOR) == 1
        yield Saving(settings={_DIVIDES: "true"}, cost=cost, tensor=alone)
    apart = _apart(case)
    if case.values[_RESHARD] != "always" and not apart:
        yield Saving(settings={_RESHARD: "always"}, cost="weights are gathered again for the backward pass")
    if case.values[_RECOMPUTE] == "none" and not apart:
        cost = "a part of each layer runs forward twice"
        yield Saving(settings={_RECOMPUTE: "selective"}, cost=cost, repeats="part")
    if case.values[_RECOMPUTE] != "full":
        cost = f"every layer runs forward {_TIMES_APART if apart else 'twice: a third more arithmetic'}"
        yield Saving(settings={_RECOMPUTE: "full"}, cost=cost, repeats="all")
    yield from _more_stages(case)


def _apart(case: Case) -> bool:
    """Whether stages, these or more, compute gradients of inputs and of weights apart: two ways to save are refused."""
    schedule = schedule_of(case.values[_SCHEDULE])
    return not case.values[_FILE] and schedule is not None and schedule.splits


def _more_stages(case: Case) -> Iterator[Saving]:
    """Twice as many, four times and so on, as long as each has a layer; none where the experiment lists the modules."""
    stages = 2 * case.size(PIPELINE)
    while stages <= min(_MOST_STAGES, case.shape.layers) and not case.values[_LISTED]:
        yield Saving(settings={}, cost="stages wait for each other", stages=stages)
        stages *= 2
