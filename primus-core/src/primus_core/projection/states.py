"""Weights, gradients and the optimizer's state that live on a rank through the whole of a training step.

Megatron's: each chunk of the model has a buffer of dense weights and one of experts that are spread over ranks; with
``distributed_optimizer`` the ranks that hold the same weights share the optimizer's work on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from math import prod
from operator import add

from primus_core.projection import fullysharded
from primus_core.projection.buckets import Buffer, Piece, Sharing, divided, whole
from primus_core.projection.places import FIRST, Place, held, local, size_of
from primus_core.projection.static import Static
from primus_core.shape import DTYPE_BYTES, DType, Group, ModelShape, Run, Sharding

Key = tuple[DType, bool]
"""The format of weights, and whether they are experts that are spread over ranks."""
Pieces = dict[Key, list[Piece]]


def per_rank(shape: ModelShape, stage: int, place: Place = FIRST) -> Static:
    """Of a rank of a pipeline stage; the optimizer's counters of steps, four bytes each, are left out."""
    if shape.sharding.scheme == "fully_sharded":
        return fullysharded.static_of(shape, stage, place)
    chunks = enumerate(shape.stages[stage])
    parts = (_chunk(chunk, shape, place, bucketed=stage == index == 0) for index, chunk in chunks)
    return reduce(add, parts, Static(buffers=_buffers(shape, stage, place)))


def _chunk(chunk: tuple[Run, ...], shape: ModelShape, place: Place, *, bucketed: bool) -> Static:
    """Megatron makes several buckets of the first chunk of the first stage only."""
    pieces = _pieces(chunk, shape, place)
    parts = (_buffer(key, found, shape, place, bucketed=bucketed) for key, found in pieces.items())
    return reduce(add, parts, Static())


def shares(shape: ModelShape, stage: int, place: Place = FIRST) -> Iterator[tuple[int, ...]]:
    """Elements of each tensor that the rank's optimizer works on, buffer by buffer in their order, vectors apart;
    without those whose state is told by itself, which are worked on one after the other."""
    for index, chunk in enumerate(shape.stages[stage]):
        for (_, experts), pieces in _pieces(chunk, shape, place).items():
            bucketed = stage == index == 0
            buffer = _laid_out(pieces, shape, place, experts=experts, bucketed=bucketed)
            for vector in (False, True):
                yield tuple(
                    share for piece, share in buffer.shares if share and piece.vector is vector and piece.state is None
                )


def _pieces(chunk: tuple[Run, ...], shape: ModelShape, place: Place) -> Pieces:
    """The tensors of each buffer, in order."""
    every = [found for run in chunk for found in _of_block(run.block, shape, place) * run.count]
    pieces: Pieces = {}
    for _, key, piece in sorted(every, key=lambda found: found[0]):
        pieces.setdefault(key, []).append(piece)
    return pieces


def _of_block(block: str, shape: ModelShape, place: Place) -> list[tuple[int, Key, Piece]]:
    return [
        (
            one.order,
            (one.dtype, one.expert and spread(shape)),
            Piece(elements=prod(local(one, shape, place)), apart=one.apart, vector=len(one.shape) < 2, state=one.state),
        )
        for one in shape.blocks[block].parameters
    ]


def spread(shape: ModelShape) -> bool:
    """Experts have other copies than dense weights, and with them buffers of their own."""
    return shape.group("expert") > 1 or shape.group("expert_tensor") != shape.group("tensor")


def _buffer(key: Key, pieces: list[Piece], shape: ModelShape, place: Place, *, bucketed: bool) -> Static:
    dtype, experts = key
    buffer = _laid_out(pieces, shape, place, experts=experts, bucketed=bucketed)
    return _bytes(buffer, sum(piece.elements for piece in pieces), dtype, shape)


def _laid_out(pieces: list[Piece], shape: ModelShape, place: Place, *, experts: bool, bucketed: bool) -> Buffer:
    sharding = shape.sharding
    if sharding.scheme == "replicated":
        return whole(pieces)
    group: Group = "expert_data" if experts else "data"
    ranks = max(1, shape.group(group) // shape.group("replicate"))
    limit = sharding.bucket if bucketed else None
    index = place.index(group) % ranks
    return divided(pieces, Sharing(ranks=ranks, index=index, multiple=sharding.multiple, limit=limit))


def _bytes(buffer: Buffer, elements: int, dtype: DType, shape: ModelShape) -> Static:
    sharding = shape.sharding
    weight, gradient = DTYPE_BYTES[dtype], DTYPE_BYTES[sharding.gradient]
    main = 0 if sharding.main in (None, dtype) else DTYPE_BYTES[sharding.main or dtype]
    return Static(
        weights=elements * weight,
        gradients=elements * gradient,
        main=buffer.owned * main,
        moments=sum(_moments(piece, share, sharding) for piece, share in buffer.shares),
        padding=(buffer.elements - elements) * (weight + gradient),
    )


def _moments(piece: Piece, share: int, sharding: Sharding) -> int:
    if piece.state is None:
        return share * sum(DTYPE_BYTES[moment] for moment in sharding.moments)
    return piece.state * share // max(1, piece.elements)


def _buffers(shape: ModelShape, stage: int, place: Place) -> int:
    return sum(_of_buffers(run, shape, place) for run in held(shape, stage))


def _of_buffers(run: Run, shape: ModelShape, place: Place) -> int:
    buffers: Iterator[int] = (size_of(local(one, shape, place), one.dtype) for one in shape.blocks[run.block].buffers)
    return sum(buffers) * run.count
