"""What `primus projection` answers, as data: the JSON of ``--format json``."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field

from primus_core.cli.projection.advising import Planned, advice_for, sought
from primus_core.cli.projection.judging import Asked, planned
from primus_core.errors import ConfigError
from primus_core.hardware import AcceleratorModel, accelerator_models
from primus_core.parameters import nearest
from primus_core.plan import RunPlan
from primus_core.projection.advice import Advice, Effect
from primus_core.projection.components import weights_by_component
from primus_core.projection.fit import GIB, Fit, Margin, fit, margin_of
from primus_core.projection.flops import Attention, flops_of
from primus_core.projection.project import Projection, Stage, project
from primus_core.records import frozen
from primus_core.shape import ModelShape


@frozen(kw_only=True)
class StageFigures:
    """Bytes on the rank of a pipeline stage that has the largest shares; the margin is not among them."""

    stage: int
    blocks: Mapping[str, int]
    """How many of each kind."""
    parameters: int
    """Elements on the rank."""
    bytes: int
    """The most at once: the sum of all below."""
    weights: int
    gradients: int
    main_weights: int
    moments: int
    buffers: int
    padding: int
    activations: int
    """All that comes and goes in a step."""
    at: str
    """What runs when that is most."""
    parts: Mapping[str, int]
    """Of the activations, by component."""
    weight_parts: Mapping[str, int]
    """Of the weights, by component."""


@frozen(kw_only=True)
class Answer:
    """The projection of one experiment."""

    experiment: str
    framework: str
    library_version: str
    ranks: int
    nodes: int
    groups: Mapping[str, int]
    """Sizes of the process groups that have more than one rank. ``data``: those that read samples of their own;
    ``shard`` and ``expert_data`` have context parallel ranks among them."""
    micro_batch_tokens: int
    micro_batches: int
    """Of an optimizer step, on each replica."""
    schedule: str
    parameters: int
    """Of the whole model."""
    attention: Attention
    """How much of causal attention is counted in all floating-point operations below."""
    model_flops_per_token: float
    """That training needs, forward and backward: products of matrices, a multiplication and an addition as two."""
    hardware_flops_per_token: float
    """That the run does: with what is recomputed, what several ranks repeat, and rows of padding."""
    model_flops_per_iteration: float
    """Of an optimizer step over all ranks."""
    hardware_flops_per_iteration: float
    model_flops_per_gpu: float
    """Of an optimizer step, a rank's equal share."""
    hardware_flops_per_gpu: float
    stages: tuple[StageFigures, ...]
    heaviest: int
    """Stage whose rank needs most."""
    needed: int
    """Bytes of that rank with the margin."""
    margin: tuple[Margin, ...]
    device: str
    """Empty: none was named."""
    capacity: int | None
    """Bytes of the device."""
    fits: bool | None
    """None where no device was named, or where activations are not known and the rest fits."""
    has_activations: bool
    changes: tuple[Effect, ...] = field(default=())
    """The cheapest that save memory, where it does not fit."""
    sought: str = ""
    """What was tried, where no change alone is enough, and why, in words."""
    assumptions: tuple[str, ...] = field(default=())


def answer(asked: Asked) -> Answer:
    """Project the experiment of a command line.

    Raises:
        PrimusError: such a run would be refused, or the back end has no projection.
    """
    device = None if asked.args.gpu is None else find_device(asked.args.gpu)
    judged = asked.judged({}, asked.args.gpus)
    plan = planned(judged)
    shape = asked.shape_of(judged, plan)
    projection = project(shape)
    learned = _learned(asked)
    on_device = device is not None or plan.target.accelerator != "cpu"
    margin = margin_of(projection.heaviest, plan.target.world_size, learned) if on_device else ()
    found = _fit(projection, margin, device)
    advice = advice_for(asked, Planned(plan, shape, projection), found, learned) if found.fits is False else None
    return _answer(plan, shape, projection, found, advice)


def find_device(name: str) -> AcceleratorModel:
    """The model that ``--gpu`` names.

    Raises:
        ConfigError: it is not known.
    """
    models = {model.model.lower(): model for model in accelerator_models()}
    if name.lower() in models:
        return models[name.lower()]
    meant = nearest(name.lower(), list(models))
    guess = f"did you mean {meant}? " if meant else ""
    raise ConfigError(f"--gpu {name} is not known", remedy=f"{guess}known: {', '.join(models)}")


def _learned(asked: Asked) -> Margin | None:
    if asked.args.calibrate is None:
        return None
    from primus_core.cli.projection.calibrating import learned_from  # here: most projections have no run to learn from

    return learned_from(asked.args.calibrate, asked)


def _fit(projection: Projection, margin: tuple[Margin, ...], device: AcceleratorModel | None) -> Fit:
    if device is None:
        return fit(projection, margin)
    return fit(projection, margin, device.model, round(device.memory_gib * GIB))


def _answer(plan: RunPlan, shape: ModelShape, projection: Projection, found: Fit, advice: Advice | None) -> Answer:
    known = projection.has_activations or found.fits is False
    flops = flops_of(shape)
    return Answer(
        experiment=plan.job.name,
        framework=plan.framework or "",
        library_version=plan.target.library_version,
        ranks=plan.target.world_size,
        nodes=plan.target.nodes,
        groups=_groups(shape),
        micro_batch_tokens=shape.tokens,
        micro_batches=shape.schedule.micro_batches,
        schedule=shape.schedule.name,
        parameters=projection.parameters,
        attention=flops.attention,
        model_flops_per_token=flops.model,
        hardware_flops_per_token=flops.hardware,
        model_flops_per_iteration=flops.model_per_iteration,
        hardware_flops_per_iteration=flops.hardware_per_iteration,
        model_flops_per_gpu=flops.model_per_gpu,
        hardware_flops_per_gpu=flops.hardware_per_gpu,
        stages=tuple(map(_figures, projection.stages, weights_by_component(shape))),
        heaviest=projection.heaviest.number,
        needed=found.needed,
        margin=found.margin,
        device=found.device,
        capacity=found.capacity,
        fits=found.fits if known else None,
        has_activations=projection.has_activations,
        changes=advice.effects if advice else (),
        sought=sought(advice, plan.target.world_size) if advice else "",
        assumptions=_assumptions(projection, advice),
    )


def _groups(shape: ModelShape) -> dict[str, int]:
    """Those of experts are left out where the model has none, and the one that shards weights where none are."""
    parameters = [each for block in shape.blocks.values() for each in block.parameters]
    mixed = any(each.expert or each.spread for each in parameters)
    sharded = shape.sharding.scheme == "fully_sharded"
    sizes = {str(name): size for name, size in shape.groups.items()}
    sizes["data"] = shape.group("data") // shape.group("context")
    hidden = {name for name in sizes if name.startswith("expert") and not mixed} | (set() if sharded else {"shard"})
    return {name: size for name, size in sizes.items() if size > 1 and name not in hidden}


def _figures(stage: Stage, weight_parts: Mapping[str, int]) -> StageFigures:
    static = stage.static
    return StageFigures(
        stage=stage.number,
        blocks=stage.blocks,
        parameters=stage.parameters,
        bytes=stage.bytes,
        weights=static.weights,
        gradients=stage.gradients,
        main_weights=static.main,
        moments=static.moments,
        buffers=static.buffers,
        padding=static.padding,
        activations=stage.activations,
        at=stage.peak.at,
        parts=_largest_first(stage.parts),
        weight_parts=_largest_first(weight_parts),
    )


def _largest_first(parts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def _assumptions(projection: Projection, advice: Advice | None) -> tuple[str, ...]:
    lacking = () if projection.has_activations else ("The back end tells no activations: they are not in the figures.",)
    same = ("Changes are tried on the same number of ranks unless they name another.",) if advice else ()
    margin = "What only a device has (margin) is a rule of thumb unless a run told it (--calibrate)."
    return (*lacking, *projection.notes, margin, *same)
