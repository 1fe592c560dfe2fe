"""The one entry to a projection: what a rank of each pipeline stage holds while it trains."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.projection import iteration, optimizing, parameters, states
from primus_core.projection.iteration import WORKSPACE, Peak
from primus_core.projection.places import held
from primus_core.projection.reducing import SHARDS
from primus_core.projection.static import Static
from primus_core.records import frozen
from primus_core.shape import Block, ModelShape


@frozen(kw_only=True)
class Stage:
    """The memory of the rank of a pipeline stage that has the largest shares; bytes, without what only a GPU has."""

    number: int
    """Position in the pipeline, from 0."""
    blocks: Mapping[str, int]
    """How many of each kind."""
    parameters: int
    """Elements of the weights on the rank, copies of other stages' among them."""
    static: Static
    peak: Peak
    """Of what comes and goes in a step, beside what lives through it."""
    bytes: int
    """The most at once."""

    gradients: int
    """Of the weights, that live at that moment: all, or of fully sharded weights those that are there already."""

    @property
    def activations(self) -> int:
        """Bytes of the most at once that come and go in a step, gradients of weights apart."""
        static = self.static
        lasting = static.weights + self.gradients + static.main + static.moments + static.buffers + static.padding
        return self.bytes - lasting

    @property
    def parts(self) -> Mapping[str, int]:
        """What `activations` is made of."""
        return _going(self.peak.parts)


@frozen(kw_only=True)
class Projection:
    """What a model needs on the ranks of one layout."""

    parameters: int
    """Of the whole model, each once."""
    stages: tuple[Stage, ...]
    has_activations: bool
    """Whether the back end tells its operators; without them the figures are those of weights and optimizer alone."""
    notes: tuple[str, ...]
    """Assumptions of the back end, a sentence each."""

    @property
    def heaviest(self) -> Stage:
        """The stage whose rank needs most; the first of equals."""
        return max(self.stages, key=lambda stage: stage.bytes)


def project(shape: ModelShape) -> Projection:
    """Everything that is known of a model before it starts.

    The work grows with the number of different blocks and of pipeline stages, never with that of ranks.

    Raises:
        ValueError: the shape contradicts itself: an operator reads what none makes.
    """
    counts = parameters.count(shape)
    return Projection(
        parameters=counts.total,
        stages=tuple(_stage(shape, number, counts.stages[number]) for number in range(len(shape.stages))),
        has_activations=all(map(_has_activations, shape.blocks.values())),
        notes=shape.notes,
    )


def _has_activations(block: Block) -> bool:
    """Operators without activations tell FLOPs alone."""
    return not block.parameters or any(operator.makes for operator in block.operators)


def _stage(shape: ModelShape, number: int, elements: int) -> Stage:
    static = states.per_rank(shape, number)
    gradients, peak = _moment(shape, number, static, iteration.peak(shape, number))
    return Stage(
        number=number,
        blocks=_blocks(shape, number),
        parameters=elements,
        static=static,
        peak=peak,
        bytes=static.total - static.gradients + gradients + sum(_going(peak.parts).values()),
        gradients=gradients,
    )


def _moment(shape: ModelShape, stage: int, static: Static, peak: Peak) -> tuple[int, Peak]:
    """Bytes of the weights' gradients at the moment of the most, and what comes and goes then.

    Fully sharded weights get their gradients in the step, where the peak counts them; when the optimizer works, all are
    there.
    """
    sharded = shape.sharding.scheme == "fully_sharded"
    there = peak.parts.get(SHARDS, 0) if sharded else static.gradients
    after = optimizing.peak(shape, stage, static, peak.parts.get(WORKSPACE, 0))
    if there + sum(_going(peak.parts).values()) > static.gradients + after.bytes:
        return there, peak
    return static.gradients, after


def _going(parts: Mapping[str, int]) -> dict[str, int]:
    """Without the gradients of weights, which are told by themselves."""
    return {name: size for name, size in parts.items() if name != SHARDS}


def _blocks(shape: ModelShape, number: int) -> dict[str, int]:
    blocks: dict[str, int] = {}
    for run in held(shape, number):
        blocks[run.block] = blocks.get(run.block, 0) + run.count
    return blocks
