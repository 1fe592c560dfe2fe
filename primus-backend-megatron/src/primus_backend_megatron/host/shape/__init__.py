"""The model of a plan as projection reads it: Megatron's tensors, stages, shards and operators, by arithmetic alone."""

from __future__ import annotations

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape.blocks import blocks_of, stages_of
from primus_backend_megatron.host.shape.notes import notes_of
from primus_backend_megatron.host.shape.operators_work import Work
from primus_backend_megatron.host.shape.savings import savings_of
from primus_backend_megatron.host.shape.schedule import schedule_of
from primus_backend_megatron.host.shape.sharding import groups_of, sharding_of
from primus_core.errors import ConfigError
from primus_core.plan import RunPlan
from primus_core.shape import ModelShape

__all__ = ["shape_of", "shape_of_plan"]


def shape_of_plan(plan: RunPlan) -> ModelShape | None:
    """The shape of a plan that `preflight_check` lets pass; None for a plan without a translation.

    Raises:
        ConfigError: the model has layers whose tensors are not known here.
    """
    if plan.translation is None or plan.experiment is None or plan.module is None:
        return None
    case = Case.of(plan, plan.translation, plan.experiment.modules[plan.module])
    variant = case.values["experimental_attention_variant"]
    if variant is not None:
        raise ConfigError(
            f"{case.module.model} cannot be projected: it has layers of the kind {variant}",
            where=case.place(("experimental_attention_variant",)),
            why="their weights, and what they keep for the backward pass, are not known to the projection",
            remedy="project a model whose layers all have attention or latent attention",
        )
    return shape_of(case)


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
