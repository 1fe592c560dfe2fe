"""The model of a plan as projection reads it: TorchTitan's tensors, stages and shards, by arithmetic alone."""

from __future__ import annotations

from primus_backend_torchtitan.host.case import Case
from primus_backend_torchtitan.host.shape.blocks import blocks_of
from primus_backend_torchtitan.host.shape.groups import groups_of
from primus_backend_torchtitan.host.shape.notes import notes_of
from primus_backend_torchtitan.host.shape.savings import savings_of
from primus_backend_torchtitan.host.shape.schedule import local_batch, micro_batch, schedule_of_step
from primus_backend_torchtitan.host.shape.sharding import sharding_of
from primus_backend_torchtitan.host.shape.stages import stages_of
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
    groups = groups_of(case)
    batch = case.size("training.global_batch_size", -1)
    sequence, stages = case.shape.sequence, stages_of(case)
    return ModelShape(
        groups=groups,
        blocks=blocks_of(case),
        stages=stages,
        sharding=sharding_of(case),
        schedule=schedule_of_step(case, groups, len(stages[0])),
        tokens=micro_batch(case) * sequence,
        samples=batch if batch > 0 else local_batch(case) * case.replicas,
        sequence=sequence,
        recomputing="through",
        table="local" if case.accelerator == "cpu" else "fused",
        notes=notes_of(case),
        savings=savings_of(case),
    )
