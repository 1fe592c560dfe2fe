"""The one entry to a projection: what a rank of each pipeline stage holds while it trains."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.projection import iteration, parameters, states
from primus_core.projection.chunk import SHARDS
from primus_core.projection.iteration import Peak
from primus_core.projection.places import held
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
    """While a step runs, beside what lives through it."""
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
        return {name: size for name, size in self.peak.parts.items() if name != SHARDS} if self.activations else {}


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
    static, peak = states.per_rank(shape, number), iteration.peak(shape, number)
    gradients, going = _moment(shape, static, peak)
    return Stage(
        number=number,
        blocks=_blocks(shape, number),
        parameters=elements,
        static=static,
        peak=peak,
        bytes=static.total - static.gradients + gradients + going,
        gradients=gradients,
    )


def _moment(shape: ModelShape, static: Static, peak: Peak) -> tuple[int, int]:
    """Bytes of the weights' gradients at the moment of the most, and of what comes and goes beside them.

    Fully sharded weights get their gradients in the step, where the peak counts them; after it, all are there.
    """
    if shape.sharding.scheme != "fully_sharded":
        return static.gradients, peak.bytes
    if peak.bytes <= static.gradients:
        return static.gradients, 0
    there = peak.parts.get(SHARDS, 0)
    return there, peak.bytes - there


def _blocks(shape: ModelShape, number: int) -> dict[str, int]:
    blocks: dict[str, int] = {}
    for run in held(shape, number):
        blocks[run.block] = blocks.get(run.block, 0) + run.count
    return blocks
