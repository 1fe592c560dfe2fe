"""Layers over the stages of the pipeline, and micro batches through them."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from primus_backend_torchtitan.host.case import CONTEXT, PIPELINE, Case
from primus_backend_torchtitan.host.legality.written import MODULES, check_written
from primus_backend_torchtitan.host.schedules import NAMES, Schedule, schedule_of
from primus_core.outcome import Finding
from primus_core.parameters import nearest
from primus_core.planning.nearest import nearest_sizes

_LAYERS, _TIED = "model.num_layers", "model.untie_embeddings_and_output_weights"
_SCHEDULE, _FILE = "parallelism.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule_csv"
_LOSS, _PIECES, _RESHARD = "loss.kind", "loss.num_chunks", "parallelism.fsdp_reshard_after_forward"
_PER_STAGE = "parallelism.pipeline_parallel_layers_per_stage"
_FIRST, _LAST = (f"parallelism.pipeline_parallel_{end}_stage_less_layers" for end in ("first", "last"))
_GLOBAL, _LOCAL, _MICRO = (
    "training.global_batch_size",
    "training.local_batch_size",
    "parallelism.pipeline_parallel_microbatch_size",
)


def check_pipeline(case: Case) -> Iterator[Finding]:
    """Whether the model can be cut as TorchTitan cuts it, and the schedule can run the stages."""
    if case.size(PIPELINE) == 1:
        return
    if case.shape.tied_embeddings:
        yield case.error(
            "pipeline",
            "TorchTitan cannot divide a model into stages whose embedding and output share their weights",
            (PIPELINE, _TIED),
            f"set {case.name(_TIED)}: true, or {case.name(PIPELINE)}: 1",
        )
    schedule = schedule_of(case.values[_SCHEDULE])
    if case.values[_FILE]:
        return
    if schedule is None:
        near = nearest(str(case.values[_SCHEDULE]), NAMES)
        yield case.error(
            "schedule",
            f"torch has no pipeline schedule {case.values[_SCHEDULE]}",
            (_SCHEDULE,),
            f"write {near}" if near else f"write one of {', '.join(NAMES)}",
        )
        return
    if case.values[MODULES] is None:
        yield from _stages(case, schedule)
    else:
        yield from check_written(case, schedule)
    if schedule.splits:
        yield from _halves(case, schedule)


def _halves(case: Case, schedule: Schedule) -> Iterator[Finding]:
    """What fails, or trains wrongly, where gradients of weights are computed apart from those of inputs."""
    if case.values[_LOSS] == "chunked":
        yield case.error(
            "loss",
            f"the last norm gets no gradient where {schedule.name} computes gradients of weights apart and the loss "
            "comes in pieces",
            (_LOSS, _PIECES, _SCHEDULE),
            f"set {_LOSS}: cross_entropy and leave out {_PIECES}, or choose another schedule",
        )
    if case.values[_RESHARD] == "always":
        yield case.error(
            "reshard",
            f"weights lose gradients without a word where {schedule.name} computes these apart and the weights are "
            "divided again after each forward pass: what was gathered is not there to be found",
            (_RESHARD, _SCHEDULE),
            f"set {case.name(_RESHARD)}: default, or choose another schedule",
        )


@frozen
class _Cut:
    """The model in layers; its two ends count as some more."""

    case: Case
    schedule: Schedule

    @property
    def units(self) -> int:
        return self.case.shape.layers + self.case.size(_FIRST, 0) + self.case.size(_LAST, 0)

    def stages(self, ranks: int) -> int:
        """On so many ranks together."""
        per_stage = self.case.values[_PER_STAGE]
        if isinstance(per_stage, int) and per_stage > 0:
            return -(-self.units // per_stage)
        return ranks * self.schedule.least_stages

    def last(self, ranks: int) -> int:
        """Layers of the last stage."""
        return self.units // self.stages(ranks) - self.case.size(_LAST, 0)

    def fits(self, ranks: int) -> bool:
        """As many stages on every rank as the schedule needs, none of them less than what its end counts for.

        The first stage must have a layer beside the embedding: TorchTitan's optimizer wants a part of the model to
        have parameters of every group, and norms are one.
        """
        if ranks == 1:
            return True
        stages = self.stages(ranks)
        each, rest = divmod(stages, ranks)
        if rest or not self.schedule.has(each):
            return False
        units, larger = divmod(self.units, stages)
        first, last = self.case.size(_FIRST, 0), self.case.size(_LAST, 0)
        return units >= max(first, last, 1) and units + (larger > 0) > first


def _stages(case: Case, schedule: Schedule) -> Iterator[Finding]:
    cut, ranks = _Cut(case, schedule), case.size(PIPELINE)
    if cut.fits(ranks):
        yield from _last_layers(case, cut, ranks)
        yield from _micro_batches(case, schedule, cut.stages(ranks))
        return
    sizes = nearest_sizes(ranks, cut.units, cut.fits)
    stages = cut.stages(ranks)
    each = {"one": "one stage", "two": "two stages", "several": "two stages or more"}[schedule.stages]
    yield case.error(
        "stages",
        f"{case.shape.layers} layers in {stages} stages do not suit {schedule.name}, which has {each} on each of the "
        f"{ranks} ranks",
        (_LAYERS, PIPELINE, _SCHEDULE, _PER_STAGE, _FIRST, _LAST),
        f"set {case.name(PIPELINE)} to {sizes}, or choose another number of layers",
    )


def _last_layers(case: Case, cut: _Cut, ranks: int) -> Iterator[Finding]:
    """TorchTitan looks for attention in every stage that shares sequences."""
    if case.size(CONTEXT) == 1 or cut.last(ranks):
        return
    sizes = nearest_sizes(ranks, cut.units, lambda size: cut.fits(size) and (size == 1 or cut.last(size) > 0))
    yield case.error(
        "stages",
        "context parallel ranks need a layer in every stage, and the last stage has none",
        (CONTEXT, PIPELINE, _LAYERS, _SCHEDULE, _PER_STAGE, _LAST),
        f"set {case.name(PIPELINE)} to {sizes}, or {case.name(_LAST)}: 0",
    )


def _micro_batches(case: Case, schedule: Schedule, stages: int) -> Iterator[Finding]:
    """So many as the schedule needs in one local batch."""
    ranks, micro, local = case.size(PIPELINE), case.size(_MICRO), case.size(_LOCAL)
    count = local // micro
    if local % micro or schedule.allows(count, ranks, stages):
        return
    own = case.paths.get(_LOCAL, "micro_batch_size") != "micro_batch_size"
    key, step = (_LOCAL, micro) if own else (_GLOBAL, micro * max(1, case.replicas))
    needs = {
        "rounds": f"a multiple of the {max(1, count // ranks)} rounds that {ranks} ranks make of them",
        "ranks": f"{ranks} micro batches or more",
        "stages": f"{stages} micro batches or more",
    }[schedule.micro_batches]
    sizes = nearest_sizes(
        count * step,
        (count + stages) * step,
        lambda size: size % step == 0 and schedule.allows(size // step, ranks, stages),
    )
    yield case.error(
        "micro-batches",
        f"{schedule.name} needs {needs}, and a step has {count}",
        (key, _MICRO, PIPELINE, _SCHEDULE),
        f"set {case.name(key)} to {sizes}",
    )
