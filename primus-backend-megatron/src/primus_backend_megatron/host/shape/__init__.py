"""The model of a plan as projection reads it: Megatron's tensors, stages, shards and operators, by arithmetic alone."""

from __future__ import annotations

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape.blocks import blocks_of, stages_of
from primus_backend_megatron.host.shape.layers import predicts_with_loss
from primus_backend_megatron.host.shape.operators_work import Work
from primus_backend_megatron.host.shape.savings import savings_of
from primus_backend_megatron.host.shape.schedule import schedule_of
from primus_backend_megatron.host.shape.sharding import groups_of, sharding_of
from primus_core.plan import RunPlan
from primus_core.shape import ModelShape

__all__ = ["shape_of", "shape_of_plan"]

_BALANCED = "Every expert gets as many tokens as every other, but for what --moe-load-factor says."
_PREDICTION = (
    "What layers of multi-token prediction on a stage without the loss keep is not counted; their weights are."
)
_DROPPED = "On a CPU, attention with dropout keeps whole matrices of weights, which are not counted."
_FUSED = "Gradients of weights are counted as if none was added to the sum in one kernel with its product."
_SHARDED = "Weights are counted whole on each rank; use_torch_fsdp2 and use_megatron_fsdp may hold less."
_SENT = "Fused attention over context parallel ranks is counted as if keys and values were gathered."


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
        notes=_notes(case),
        savings=savings_of(case),
    )


def _notes(case: Case) -> tuple[str, ...]:
    fused = Work.of(case).fused
    told = {
        _BALANCED: case.shape.experts > 0,
        _PREDICTION: case.on("mtp_num_layers") and not predicts_with_loss(case),
        _DROPPED: not fused and case.on("attention_dropout"),
        _FUSED: fused and case.on("gradient_accumulation_fusion"),
        _SHARDED: case.on("use_torch_fsdp2") or case.on("use_megatron_fsdp"),
        _SENT: fused and case.size("context_parallel_size") > 1,
    }
    return tuple(note for note, true in told.items() if true)
