"""What is advised where an experiment does not fit: from its plan to a search, and from what that found to words."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.cli.projection.judging import Asked
from primus_core.plan import RunPlan
from primus_core.projection.advice import MOST_RANKS, Advice, Need, advise
from primus_core.projection.bounds import Sizes, least_of
from primus_core.projection.changing import Now
from primus_core.projection.fit import Fit, Margin, fit, margin_of
from primus_core.projection.project import Projection
from primus_core.quantities import memory_size
from primus_core.records import frozen
from primus_core.shape import ModelShape

_NAMES = {"main": "main weights", "moments": "optimizer state"}


@frozen
class Planned:
    """An experiment as it is."""

    plan: RunPlan
    shape: ModelShape
    projection: Projection


def advice_for(asked: Asked, planned: Planned, found: Fit, learned: Margin | None) -> Advice:
    """With the same margin, but for what depends on activations and ranks."""

    def needs(settings: Mapping[str, str], ranks: int) -> Need | None:
        changed = asked.projected(settings, ranks)
        return None if changed is None else _need(changed, margin_of(changed.heaviest, ranks, learned))

    before = _need(planned.projection, found.margin)
    return advise(_now(planned.plan, planned.shape), before, found.capacity or 0, needs)


def _need(projection: Projection, margin: tuple[Margin, ...]) -> Need:
    stage = projection.heaviest
    kinds = {name: getattr(stage.static, name) for name in ("weights", "main", "moments")}
    sizes = {**kinds, "gradients": stage.gradients, **stage.parts}
    largest = max(sizes, key=lambda name: sizes[name])
    return Need(
        bytes=fit(projection, margin).needed,
        activations=stage.activations,
        largest=_NAMES.get(largest, largest),
        largest_bytes=sizes[largest],
    )


def _now(plan: RunPlan, shape: ModelShape) -> Now:
    ranks, least = plan.target.world_size, least_of(shape)
    if plan.translation is None:
        return Now(ranks=ranks, savings=shape.savings, least=least)
    layout, model = plan.translation.layout, plan.translation.model
    sizes = Sizes(
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        context=layout.context,
        expert=layout.expert,
        expert_tensor=layout.expert_tensor,
        micro_batch_size=max(1, layout.micro_batch_size),
        global_batch_size=layout.global_batch_size,
    )
    experts = model.experts if model else 0
    return Now(ranks=ranks, sizes=sizes, experts=experts, savings=shape.savings, least=least, names=layout.names)


def sought(advice: Advice, ranks: int) -> str:
    """What was tried, and why no change alone is enough; empty where one is."""
    if advice.one_is_enough:
        return ""
    words = [_floor(advice, ranks)] if advice.fewest > ranks else []
    if not any(effect.fits for effect in advice.effects):
        words.append(_tried(advice))
    elif not words:
        words.append("No change alone is enough: several are put together.")
    return " ".join(words)


def _tried(advice: Advice) -> str:
    if not advice.plans + advice.refused:
        return "No change promises to be enough: none was tried."
    on = f"on up to {advice.ranks:,} rank{'s' * (advice.ranks != 1)}"
    refused = f"{advice.refused} change{'s' * (advice.refused != 1)}, {on}, would be refused"
    if not advice.plans:
        return f"Nothing that was tried can run: {refused}."
    tried = f"{advice.plans} plan{'s were' if advice.plans != 1 else ' was'} tried, {on}, and none fits"
    least = f"where least is needed, {memory_size(advice.largest_bytes)} are {advice.largest}"
    return f"{tried}: {least}." + (f" Beside them {advice.refused} would be refused." if advice.refused else "")


def _floor(advice: Advice, ranks: int) -> str:
    least = f"weights, gradients and optimizer state alone are {memory_size(advice.floor)} on each"
    on = f"Nothing fits on {ranks:,} rank{'s' * (ranks != 1)}: {least}, however they are divided."
    return on if advice.fewest >= MOST_RANKS else f"{on} Of its doublings, {advice.fewest:,} is the first that can."
