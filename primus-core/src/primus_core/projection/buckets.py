"""Weights and gradients one after the other in few long buffers, which ranks share out, as Megatron lays them out.

Sources: `DistributedOptimizer._compute_per_buffer_param_layout` and `_ParamAndGradBuffer` of megatron-core 0.19. All
lengths are numbers of elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import lcm

from attrs import define, field

from primus_core.records import frozen

START = 64
"""A tensor of a shared buffer starts at a multiple of it."""
Span = tuple[int, int]


@frozen(kw_only=True)
class Buffer:
    """One buffer, and what of it belongs to one rank."""

    elements: int = 0
    """Padding included."""
    shares: tuple[tuple[Piece, int], ...] = ()
    """Of each tensor, as they follow in the buffer, what is in the rank's share."""

    @property
    def owned(self) -> int:
        """Of the rank's share, those that are no padding."""
        return sum(share for _, share in self.shares)


@frozen(kw_only=True)
class Piece:
    """One tensor in a buffer."""

    elements: int
    apart: bool = False
    """Nothing else is in its bucket."""
    vector: bool = False
    """Of one dimension: an optimizer works on these by themselves, for they do not decay."""
    state: int | None = None
    """As `primus_core.shape.Parameter.state`."""


@frozen(kw_only=True)
class Sharing:
    """Which share of each bucket is a rank's."""

    ranks: int
    index: int
    multiple: int
    """Buckets end at multiples of it, and of the number of ranks."""
    limit: int | None
    """A bucket ends with the tensor that makes it as long as this; None: there is one bucket."""


def divided(pieces: Sequence[Piece], sharing: Sharing) -> Buffer:
    """A buffer whose buckets are cut into equal shares, of tensors in the order in which they are registered."""
    layout = _Layout(sharing=sharing)
    for piece in reversed(pieces):
        layout.add(piece)
    return layout.ended()


def whole(pieces: Iterable[Piece]) -> Buffer:
    """A buffer that every rank works on, without padding."""
    shares = tuple((piece, piece.elements) for piece in pieces)
    return Buffer(elements=sum(share for _, share in shares), shares=shares)


def rounded(length: int, multiple: int) -> int:
    """Up to a multiple."""
    return -(-length // multiple) * multiple


@define(kw_only=True)
class _Layout:
    """Tensors of a buffer, the last registered first."""

    sharing: Sharing
    _start: int = 0
    """Of the bucket."""
    _end: int = 0
    """Of what is in it."""
    _spans: list[Span] = field(factory=list)
    _pieces: list[Piece] = field(factory=list)
    """Of the bucket."""
    _shares: list[tuple[Piece, int]] = field(factory=list)

    def add(self, piece: Piece) -> None:
        if piece.apart and self._spans:
            self._close()
        first = rounded(self._end, START)
        self._end = first + piece.elements
        self._spans.append((first, self._end))
        self._pieces.append(piece)
        limit = self.sharing.limit
        if piece.apart or (limit is not None and self._end - self._start >= limit):
            self._close()

    def ended(self) -> Buffer:
        if self._spans:
            self._close()
        return Buffer(elements=self._end, shares=tuple(self._shares))

    def _close(self) -> None:
        sharing = self.sharing
        end = rounded(self._end, lcm(sharing.ranks, sharing.multiple))
        share = (end - self._start) // sharing.ranks
        first = self._start + sharing.index * share
        owned = (max(0, min(first + share, right) - max(first, left)) for left, right in self._spans)
        self._shares += zip(self._pieces, owned, strict=True)
        self._start = self._end = end
        self._spans.clear()
        self._pieces.clear()
