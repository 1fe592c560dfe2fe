"""Where a rank stands in its process groups, and what part of a tensor is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from attrs import field

from primus_core.records import frozen
from primus_core.shape import DTYPE_BYTES, DType, Group, ModelShape, Parameter, Run


@frozen(kw_only=True)
class Place:
    """Coordinates of a rank; in a group that is absent it is the first, which has the largest shares."""

    at: Mapping[Group, int] = field(factory=dict)

    def index(self, group: Group | None) -> int:
        """Position in a group."""
        return self.at.get(group, 0) if group else 0


FIRST = Place()
"""The rank with the largest shares of its stage."""


def share(length: int, ranks: int, index: int) -> int:
    """Length of one share: all are equal but the last ones, which may be smaller or empty."""
    most = -(-length // ranks)
    return min(most, max(0, length - index * most))


def local(parameter: Parameter, shape: ModelShape, place: Place = FIRST) -> tuple[int, ...]:
    """Sizes of the part of a tensor that tensor and expert parallelism leave a rank."""
    axes = (*parameter.axes, *(None,) * (len(parameter.shape) - len(parameter.axes)))
    return tuple(
        share(length, shape.group(axis), place.index(axis)) for length, axis in zip(parameter.shape, axes, strict=True)
    )


def computed(parameter: Parameter, shape: ModelShape) -> tuple[int, ...]:
    """Sizes of the gradient that a rank computes."""
    return parameter.shape if parameter.partial else local(parameter, shape)


def held(shape: ModelShape, stage: int) -> Iterator[Run]:
    """The runs of blocks that a pipeline rank holds, of all its chunks."""
    for chunk in shape.stages[stage]:
        yield from chunk


def size_of(sizes: tuple[int, ...], dtype: DType) -> int:
    """Bytes of a tensor."""
    return prod(sizes) * DTYPE_BYTES[dtype]
