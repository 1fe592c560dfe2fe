"""How many parameters a model has, and how many of them a rank holds."""

from __future__ import annotations

from math import prod

from primus_core.projection.places import FIRST, Place, held, local
from primus_core.records import frozen
from primus_core.shape import Block, ModelShape, Parameter


@frozen(kw_only=True)
class Counts:
    """Numbers of trained elements; buffers apart."""

    total: int
    """Of the whole model: what several ranks have alike, and copies of other stages' parameters, counted once."""
    stages: tuple[int, ...]
    """By pipeline stage, on the rank with the largest shares, as tensor and expert parallelism leave it; copies too."""


def count(shape: ModelShape) -> Counts:
    """Of the model and of one rank of each stage."""
    stages = range(len(shape.stages))
    return Counts(
        total=sum(_whole(shape.blocks[run.block], shape) * run.count for stage in stages for run in held(shape, stage)),
        stages=tuple(on_rank(shape, stage) for stage in stages),
    )


def on_rank(shape: ModelShape, stage: int, place: Place = FIRST) -> int:
    """Elements of the weights that a rank of a stage works with, before fully sharded weights are divided."""
    blocks = ((shape.blocks[run.block], run.count) for run in held(shape, stage))
    return sum(prod(local(one, shape, place)) * count for block, count in blocks for one in block.parameters)


def _whole(block: Block, shape: ModelShape) -> int:
    return sum(_elements(parameter, shape) for parameter in block.parameters if not parameter.shared)


def _elements(parameter: Parameter, shape: ModelShape) -> int:
    return prod(parameter.shape) * shape.group(parameter.spread)
