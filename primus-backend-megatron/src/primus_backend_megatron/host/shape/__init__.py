"""The model of a plan as projection reads it: Megatron's tensors, stages, shards and operators, by arithmetic alone."""

from __future__ import annotations

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape.blocks import blocks_of, stages_of
from primus_backend_megatron.host.shape.notes import notes_of
from primus_backend_megatron.host.shape.operators_work import Work
from primus_backend_megatron.host.shape.savings import savings_of
from primus_backend_megatron.host.shape.schedule import schedule_of
from primus_backend_megatron.host.shape.sharding import groups_of, sharding_of
from primus_core.plan import RunPlan
from primus_core.shape import ModelShape

__all__ = ["shape_of", "shape_of_plan"]


def shape_of_plan(plan: RunPlan) -> ModelShape | None:
    """The shape of a plan that `preflight_check` lets pass; None for a plan without a translation."""
    if plan.translation is None or plan.experiment is None or plan.module is None:
        return None
    return shape_of(Case.of(plan, plan.translation, plan.experiment.modules[plan.module]))


def shape_of(case: Case) -> ModelShape:
    """The shape of a legal case."""
    sequence = case.shape.sequence
    return ModelShape(
        groups=groups_of(case),
        blocks=blocks_of(case),
        stages=stages_of(case),
        sharding=sharding_of(case),
        schedule=schedule_of(case),
        tokens=case.size("micro_batch_size") * sequence,
        samples=case.size("global_batch_size", case.samples_at_once),
        sequence=sequence,
        table="fused" if Work.of(case).fused else "local",
        notes=notes_of(case),
        savings=savings_of(case),
    )
