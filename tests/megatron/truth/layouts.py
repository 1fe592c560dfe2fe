"""Layouts that every preset is divided by, as far as Megatron can."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from primus_backend_megatron import host
from primus_core.errors import PrimusError
from primus_core.experiment import Value
from primus_core.outcome import Where
from primus_core.plan import RunPlan
from tests.megatron.experiments import plan_of
from tests.truth.layouts import Layout, refusal

TP, PP, EP = (f"{name}_model_parallel_size" for name in ("tensor", "pipeline", "expert"))
CP, ETP, SP = "context_parallel_size", "expert_tensor_parallel_size", "sequence_parallel"
VPP = "num_virtual_stages_per_pipeline_rank"
FIRST, LAST = (f"decoder_{end}_pipeline_num_layers" for end in ("first", "last"))
WITH_EMBEDDING, WITH_LOSS = (f"account_for_{end}_in_pipeline_split" for end in ("embedding", "loss"))
SHARED, OVERLAP, BUCKET = "use_distributed_optimizer", "overlap_grad_reduce", "ddp_bucket_size"
PADDED = "ddp_pad_buckets_for_high_nccl_busbw"
SEQUENCE = 4096


LAYOUTS = (
    Layout(1, {}),
    Layout(8, {SHARED: False}),
    Layout(8, {SHARED: True, "bf16": True}),
    Layout(6, {SHARED: True, OVERLAP: True, BUCKET: 10_000}),
    Layout(96, {SHARED: True, OVERLAP: True, "bf16": True}),
    Layout(8, {SHARED: True, "fp16": True, PADDED: True}),
    Layout(8, {"fp16": True, "accumulate_allreduce_grads_in_fp32": True}),
    Layout(8, {SHARED: True, "num_distributed_optimizer_instances": 2, OVERLAP: True}),
    Layout(8, {TP: 2, SHARED: True}),
    Layout(8, {TP: 4, SP: True, "bf16": True}),
    Layout(16, {TP: 8, SP: True, SHARED: True, "bf16": True}),
    Layout(12, {CP: 2, SHARED: True}),
    Layout(16, {TP: 2, CP: 2, SP: True, SHARED: True, "bf16": True, "grad_reduce_in_bf16": True}),
    Layout(4, {PP: 2, SHARED: True}),
    Layout(8, {PP: 4, TP: 2, SHARED: True, OVERLAP: True, "bf16": True}),
    Layout(8, {PP: 4, FIRST: 1, LAST: 1, SHARED: True}),
    Layout(8, {PP: 4, LAST: 2, SHARED: True, "bf16": True}),
    Layout(16, {PP: 2, VPP: 2, SHARED: True, OVERLAP: True}),
    Layout(16, {PP: 4, VPP: 2, TP: 2, SP: True, SHARED: True, "bf16": True}),
    Layout(8, {PP: 2, WITH_EMBEDDING: True, WITH_LOSS: True, SHARED: True}),
    Layout(8, {EP: 2, SHARED: True}),
    Layout(8, {EP: 8, SHARED: True, "bf16": True}),
    Layout(16, {EP: 4, TP: 2, SP: True, SHARED: True, OVERLAP: True, "bf16": True}),
    Layout(16, {EP: 4, TP: 2, ETP: 1, SP: True, SHARED: True}),
    Layout(16, {EP: 1, TP: 4, ETP: 2, SP: True, SHARED: True}),
    Layout(32, {EP: 4, PP: 2, TP: 2, SP: True, CP: 2, SHARED: True, "bf16": True}),
    Layout(64, {EP: 8, PP: 4, SHARED: True, "bf16": True}),
    Layout(1024, {TP: 8, PP: 4, SP: True, SHARED: True, OVERLAP: True, "bf16": True}),
    Layout(2048, {EP: 64, PP: 16, SHARED: True, "bf16": True}),
    Layout(2048, {EP: 32, PP: 8, TP: 2, SP: True, SHARED: True, "bf16": True}),
    Layout(2048, {EP: 64, PP: 16, FIRST: 3, LAST: 2, SHARED: True, "bf16": True}),
    Layout(2048, {EP: 8, TP: 8, ETP: 1, SP: True, CP: 4, SHARED: True, "bf16": True}),
)


def plans_of(params: Mapping[str, Value], layouts: Iterable[Layout] = LAYOUTS) -> Iterator[tuple[Layout, RunPlan]]:
    """The layouts that Megatron can divide a model by, with their plans; none of a model that it cannot build."""
    for layout in layouts:
        try:
            plan = _plan_of(params, layout)
        except PrimusError:
            continue
        if not [one for one in host.preflight_check(plan, Where.SUBMIT) if one.severity == "error"]:
            yield layout, plan


def refused(params: Mapping[str, Value]) -> str:
    """Why Megatron cannot build a model in the first layout."""
    return refusal(lambda: _plan_of(params, LAYOUTS[0]), host.preflight_check)


def _plan_of(params: Mapping[str, Value], layout: Layout) -> RunPlan:
    wanted = {**params, **trained(layout.ranks, layout.params), **layout.params}
    return plan_of(wanted, ranks=layout.ranks)


def first_plan(params: Mapping[str, Value], start: int) -> tuple[Layout, RunPlan] | None:
    """The first of these, counted from some layout on; None for a model that Megatron cannot build."""
    start %= len(LAYOUTS)
    return next(plans_of(params, LAYOUTS[start:] + LAYOUTS[:start]), None)


def trained(ranks: int, params: Mapping[str, Value]) -> Mapping[str, Value]:
    """Parameters of a short training in a layout."""
    copies = ranks
    for name in (TP, PP, CP):
        value = params.get(name, 1)
        copies //= value if isinstance(value, int) else 1
    return {
        "seq_length": SEQUENCE,
        "max_position_embeddings": SEQUENCE,
        "micro_batch_size": 1,
        "global_batch_size": 16 * max(1, copies),
        "train_iters": 10,
        "lr": 1e-3,
        "moe_token_dispatcher_type": "alltoall",
    }
