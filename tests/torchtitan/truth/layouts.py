"""Layouts that every preset is divided by, as far as TorchTitan can, and where each rank stands in its groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from primus_backend_torchtitan import host
from primus_core.errors import PrimusError
from primus_core.experiment import Value
from primus_core.outcome import Where
from primus_core.plan import RunPlan
from tests.torchtitan.experiments import plan_of
from tests.truth.layouts import Layout, refusal

TP, PP, EP = (f"{name}_model_parallel_size" for name in ("tensor", "pipeline", "expert"))
CP = "context_parallel_size"
COPIES = "parallelism.data_parallel_replicate_degree"
SCHEDULE = "parallelism.pipeline_parallel_schedule"
PER_STAGE = "parallelism.pipeline_parallel_layers_per_stage"
FIRST_LESS, LAST_LESS = (f"parallelism.pipeline_parallel_{end}_stage_less_layers" for end in ("first", "last"))
MODULES = "parallelism.module_fqns_per_model_part"
SEQUENCE = 4096


LAYOUTS = (
    Layout(1, {}),
    Layout(8, {}),
    Layout(7, {}),
    Layout(96, {}),
    Layout(8, {COPIES: 2}),
    Layout(12, {COPIES: 4}),
    Layout(8, {TP: 2}),
    Layout(6, {TP: 2}),
    Layout(8, {TP: 2, "parallelism.enable_sequence_parallel": False}),
    Layout(16, {TP: 4, COPIES: 2}),
    Layout(64, {TP: 8}),
    Layout(6, {CP: 2}),
    Layout(16, {TP: 2, CP: 2, COPIES: 2}),
    Layout(4, {PP: 2}),
    Layout(6, {PP: 2, FIRST_LESS: 2, LAST_LESS: 0}),
    Layout(8, {PP: 4, SCHEDULE: "GPipe"}),
    Layout(6, {PP: 2, SCHEDULE: "Interleaved1F1B"}),
    Layout(4, {PP: 2, SCHEDULE: "Interleaved1F1B", PER_STAGE: 2}),
    Layout(8, {PP: 2, TP: 2, SCHEDULE: "LoopedBFS"}),
    Layout(8, {PP: 2, TP: 2, SCHEDULE: "ZBVZeroBubble"}),
    Layout(4, {PP: 2, SCHEDULE: "DualPipeV"}),
    Layout(16, {PP: 2, TP: 2, CP: 2}),
    Layout(4, {EP: 2}),
    Layout(8, {EP: 4, TP: 2}),
    Layout(8, {EP: 8, TP: 2}),
    Layout(24, {EP: 8}),
    Layout(16, {EP: 4, COPIES: 2}),
    Layout(16, {EP: 4, TP: 2, COPIES: 2}),
    Layout(16, {EP: 4, CP: 2, TP: 2}),
    Layout(32, {EP: 8, PP: 2}),
    Layout(64, {EP: 16, PP: 2, TP: 2, SCHEDULE: "InterleavedZeroBubble"}),
    Layout(512, {EP: 8}),
    Layout(2048, {EP: 64, PP: 16, TP: 2}),
    Layout(2048, {PP: 8, TP: 8, CP: 2}),
)


def plans_of(params: Mapping[str, Value], layouts: Iterable[Layout] = LAYOUTS) -> Iterator[tuple[Layout, RunPlan]]:
    """The layouts that TorchTitan can divide a model by, with their plans; none of a model that it cannot build."""
    for layout in layouts:
        try:
            plan = _plan_of(params, layout)
        except PrimusError:
            continue
        if not host.preflight_check(plan, Where.SUBMIT):
            yield layout, plan


def refused(params: Mapping[str, Value]) -> str:
    """Why TorchTitan cannot build a model in the first layout."""
    return refusal(lambda: _plan_of(params, LAYOUTS[0]), host.preflight_check)


def _plan_of(params: Mapping[str, Value], layout: Layout) -> RunPlan:
    return plan_of({**params, **trained(layout)}, ranks=layout.ranks)


def first_plan(params: Mapping[str, Value], start: int) -> tuple[Layout, RunPlan] | None:
    """The first of these, counted from some layout on; None for a model that TorchTitan cannot build."""
    if not any(plans_of(params, LAYOUTS[:1])):
        return None
    start %= len(LAYOUTS)
    return next(plans_of(params, LAYOUTS[start:] + LAYOUTS[:start]))


def trained(layout: Layout) -> Mapping[str, Value]:
    """Parameters of a short training in a layout: no more tokens than it needs."""
    size = layout.params.get
    copies = layout.ranks
    for name in (TP, PP, CP):
        value = size(name, 1)
        copies //= value if isinstance(value, int) else 1
    batches: Mapping[str, Value] = {"micro_batch_size": 1, "global_batch_size": 16 * max(1, copies)}
    balance: Mapping[str, Value] = {"moe_aux_loss_coeff": 0.0}
    return {"seq_length": SEQUENCE, "max_position_embeddings": SEQUENCE, **batches, **balance, **layout.params}
