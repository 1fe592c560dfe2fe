"""Weights, gradients and the optimizer's state that live on a rank through the whole of a training step."""

from __future__ import annotations

from functools import reduce
from operator import add

from primus_core.projection import fullysharded
from primus_core.projection.places import FIRST, Place, held, local, share, size_of
from primus_core.projection.static import Static
from primus_core.shape import Block, Group, ModelShape, Parameter


def per_rank(shape: ModelShape, stage: int, place: Place = FIRST) -> Static:
    """Of a rank of a pipeline stage."""
    if shape.sharding.scheme == "fully_sharded":
        return fullysharded.static_of(shape, stage, place)
    parts = (_block(shape.blocks[run.block], shape, place).times(run.count) for run in held(shape, stage))
    return reduce(add, parts, Static())


def _block(block: Block, shape: ModelShape, place: Place) -> Static:
    buffers = sum(size_of(local(buffer, shape, place), buffer.dtype) for buffer in block.buffers)
    return reduce(add, (_parameter(one, shape, place) for one in block.parameters), Static(buffers=buffers))


def _parameter(parameter: Parameter, shape: ModelShape, place: Place) -> Static:
    """A copy of another stage's parameter is trained like any other."""
    sharding, sizes = shape.sharding, local(parameter, shape, place)
    owned = _owned(parameter, sizes, shape, place)
    main = sharding.main
    return Static(
        weights=size_of(sizes, parameter.dtype),
        gradients=size_of(sizes, sharding.gradient),
        main=0 if main is None or main == parameter.dtype else size_of(owned, main),
        moments=sum(size_of(owned, moment) for moment in sharding.moments),
    )


def _owned(parameter: Parameter, sizes: tuple[int, ...], shape: ModelShape, place: Place) -> tuple[int, ...]:
    """What the rank's part of the optimizer has of it: all, or an equal share among those with the same weights."""
    if shape.sharding.scheme != "distributed_optimizer":
        return sizes
    group: Group = "expert_data" if parameter.expert else "data"
    elements = reduce(lambda product, size: product * size, sizes, 1)
    return (share(elements, shape.group(group), place.index(group)),)
