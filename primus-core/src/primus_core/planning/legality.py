"""Whether ranks and samples divide as the layout asks. The model's own legality is the back end's."""

from __future__ import annotations

from primus_core.experiment import Module
from primus_core.outcome import Finding
from primus_core.plan import Layout, RunPlan
from primus_core.planning.nearest import nearest_multiples

_GROUPS = {
    "tensor": "tensor_model_parallel_size",
    "pipeline": "pipeline_model_parallel_size",
    "context": "context_parallel_size",
}
_BATCHES = ("micro_batch_size", "global_batch_size")


def check_layout(plan: RunPlan) -> tuple[Finding, ...]:
    """World size over the ranks of a replica, then global batch over the samples of a step."""
    if plan.translation is None or plan.experiment is None or plan.module is None:
        return ()
    module = plan.experiment.modules[plan.module]
    layout = plan.translation.layout
    return _positive(module, layout) or _world_size(module, layout, plan) or _batch(module, layout, plan)


def _name(layout: Layout, field: str) -> str:
    """What the user calls a size."""
    return layout.names.get(field, _GROUPS.get(field, field))


def _positive(module: Module, layout: Layout) -> tuple[Finding, ...]:
    sizes = {_name(layout, field): getattr(layout, field) for field in (*_GROUPS, *_BATCHES)}
    return tuple(
        Finding(
            check="layout.positive",
            severity="error",
            summary=f"{key} is {size}",
            evidence=f"{key}: {size} ({module.origin(key)})",
            remedy="set it to 1 or more",
            where=_place(module, key),
        )
        for key, size in sizes.items()
        if size is not None and size < 1
    )


def _world_size(module: Module, layout: Layout, plan: RunPlan) -> tuple[Finding, ...]:
    world, replica = plan.target.world_size, layout.ranks_per_replica
    if world % replica == 0:
        return ()
    keys = [(_name(layout, field), getattr(layout, field)) for field in _GROUPS if getattr(layout, field) > 1]
    evidence = [f"{key}: {size} ({module.origin(key)})" for key, size in keys]
    return (
        Finding(
            check="layout.world-size",
            severity="error",
            summary=f"{world} rank{'s' * (world != 1)} cannot hold whole replicas of {replica} ranks each",
            evidence="\n".join([*evidence, f"world size: {plan.target.nodes} node(s) x {plan.target.ranks_per_node}"]),
            remedy=f"start a multiple of {replica} ranks, or make the product of the sizes one of "
            f"{', '.join(map(str, divisors(world)))}",
            where=_place(module, keys[0][0]),
        ),
    )


def _batch(module: Module, layout: Layout, plan: RunPlan) -> tuple[Finding, ...]:
    replicas = layout.data_parallel(plan.target.world_size)
    step = layout.micro_batch_size * replicas
    if layout.global_batch_size is None or layout.global_batch_size % step == 0:
        return ()
    micro, batch = (_name(layout, field) for field in _BATCHES)
    return (
        Finding(
            check="layout.batch",
            severity="error",
            summary=f"{batch} {layout.global_batch_size} is not divisible by "
            f"micro batch x data parallel = {layout.micro_batch_size} x {replicas} = {step}",
            evidence=f"{batch}: {layout.global_batch_size} ({module.origin(batch)})\n"
            f"{micro}: {layout.micro_batch_size} ({module.origin(micro)})\n"
            f"data parallel: {plan.target.world_size} ranks / {layout.ranks_per_replica} a replica = {replicas}",
            remedy=f"nearest legal {batch}: {nearest_multiples(layout.global_batch_size, step)}",
            where=_place(module, batch),
        ),
    )


def _place(module: Module, key: str) -> str:
    """``file:line`` of a parameter; empty where nobody set it under this name."""
    return module.origin(key) if key in module.params else ""


def divisors(number: int) -> list[int]:
    """All divisors of a positive number, ascending."""
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
