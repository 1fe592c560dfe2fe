"""Weights that every rank of a group holds a shard of, with PyTorch's FSDP2 (`torch.distributed.fsdp`, torch 2.13).

A parameter is cut along one dimension into as many equal shards as there are ranks; the last may be smaller or empty.
Shards and their gradients are stored as long as the first, so that collectives move equal parts; the optimizer's state
is as long as the shard itself. While a block works, its weights are there whole, in the format of the forward pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from math import prod
from operator import add

from primus_core.projection.places import FIRST, Place, held, local, share, size_of
from primus_core.projection.static import Static
from primus_core.records import frozen
from primus_core.shape import Block, ModelShape, Parameter


@frozen(kw_only=True)
class Shard:
    """One parameter of one rank, in numbers of elements by dimension."""

    whole: tuple[int, ...]
    """What is gathered, without padding: the tensor parallel rank's part."""
    own: tuple[int, ...]
    stored: tuple[int, ...]
    """The longest of the shards, as which all are stored."""
    ranks: int


@frozen(kw_only=True)
class Gathering:
    """Bytes that parameters need beside their shards while they are used, and while their gradients are reduced."""

    weights: int = 0
    """Whole, in the format of the forward pass, with padding."""
    sent: int = 0
    """A rank's part of what is gathered, in that format."""
    gradients: int = 0
    """Whole, with padding, in the format in which they are reduced."""
    reduced: int = 0
    """A rank's part of them."""

    def __add__(self, other: Gathering) -> Gathering:
        return Gathering(
            weights=self.weights + other.weights,
            sent=self.sent + other.sent,
            gradients=self.gradients + other.gradients,
            reduced=self.reduced + other.reduced,
        )


def shard_ranks(parameter: Parameter, shape: ModelShape) -> int:
    """Ranks that a parameter is cut for: experts among those that hold the same ones, of one copy of the model."""
    if parameter.expert:
        return max(1, shape.group("expert_data") // shape.group("replicate"))
    return shape.group("shard")


def shard_of(parameter: Parameter, shape: ModelShape, place: Place = FIRST) -> Shard:
    """The rank's shard; its position is that in ``shard``, of experts that in ``expert_data``."""
    whole, ranks, dimension = local(parameter, shape, place), shard_ranks(parameter, shape), parameter.shard_dimension
    index = place.index("expert_data" if parameter.expert else "shard") % ranks

    def cut(position: int) -> tuple[int, ...]:
        length = share(whole[dimension], ranks, position)
        return (*whole[:dimension], length, *whole[dimension + 1 :])

    return Shard(whole=whole, own=cut(index), stored=cut(0), ranks=ranks)


def static_of(shape: ModelShape, stage: int, place: Place = FIRST) -> Static:
    """What lives through a step on a rank of a pipeline stage; the optimizer's counters of steps, four bytes for each
    parameter, are left out."""
    parts = (_block(shape.blocks[run.block], shape, place).times(run.count) for run in held(shape, stage))
    return reduce(add, parts, Static())


def shares(shape: ModelShape, stage: int, place: Place = FIRST) -> Iterator[tuple[int, ...]]:
    """Elements of each shard that the rank's optimizer works on, chunk by chunk, vectors apart."""
    for chunk in shape.stages[stage]:
        runs = ((shape.blocks[run.block], run.count) for run in chunk)
        own = [one for block, count in runs for one in block.parameters * count if not one.shared]
        for vector in (False, True):
            yield tuple(prod(shard_of(one, shape, place).own) for one in own if (len(one.shape) < 2) is vector)


def gathering_of(parameters: Iterable[Parameter], shape: ModelShape, place: Place = FIRST) -> Gathering:
    """Of the parameters that are gathered together."""
    return reduce(add, (_gathered(parameter, shape, place) for parameter in parameters), Gathering())


def _block(block: Block, shape: ModelShape, place: Place) -> Static:
    buffers = sum(size_of(local(buffer, shape, place), buffer.dtype) for buffer in block.buffers)
    parts = (_parameter(parameter, shape, place) for parameter in block.parameters)
    return reduce(add, parts, Static(buffers=buffers))


def _parameter(parameter: Parameter, shape: ModelShape, place: Place) -> Static:
    """A copy has a place of its own in what is gathered and reduced only; gradients are as long as the first shard."""
    sharding, shard = shape.sharding, shard_of(parameter, shape, place)
    kept = sharding.main or parameter.dtype
    own, stored = size_of(shard.own, kept), size_of(shard.stored, kept)
    if parameter.shared:
        return Static(gradients=stored)
    state = sum(size_of(shard.own, moment) for moment in sharding.moments)
    copy = size_of(shard.own, sharding.copy) if sharding.copy else 0
    return Static(weights=own, gradients=stored, main=copy, moments=state, padding=stored - own)


def _gathered(parameter: Parameter, shape: ModelShape, place: Place) -> Gathering:
    shard = shard_of(parameter, shape, place)
    sent, reduced = size_of(shard.stored, parameter.dtype), size_of(shard.stored, shape.sharding.gradient)
    return Gathering(weights=sent * shard.ranks, sent=sent, gradients=reduced * shard.ranks, reduced=reduced)
