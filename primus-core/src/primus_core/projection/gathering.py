"""When weights of fully sharded blocks are gathered and let go of, as PyTorch's FSDP2 does it (torch 2.13).

Forward: a block's weights arrive in one flat buffer and are copied out of it; the buffer stays until the next block's
have arrived. Backward: the next block's buffer is filled while a block works, and freed once it is copied. Where a
block's experts have other shards than the rest of it, both arrive apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve

from primus_core.projection.fullysharded import gathering_of, shard_ranks
from primus_core.records import frozen
from primus_core.shape import Block, ModelShape, Parameter


@frozen(kw_only=True)
class Gathered:
    """Bytes that a fully sharded block needs beside its shards."""

    weights: int = 0
    """Whole, while it works."""
    flat: int = 0
    """The buffers that they arrive in."""
    lasting: int = 0
    """Of these, the one that stays after the forward pass until the next block's weights have arrived."""
    sent: int = 0
    """The most beside `flat` while these are filled: a rank's part, converted for sending."""
    copied: int = 0
    """The most beside `flat` while weights are copied out of them."""
    again: int = 0
    """The same and the buffers beside the weights, where some arrive again for the backward pass."""
    stays: bool = False
    """The weights are not freed between forward and backward."""

    @property
    def returns(self) -> bool:
        """It reads what a block before it had gathered, which is freed after its forward pass, and gathered again."""
        return bool(self.again) and not self.weights and not self.stays


def gathered_of(shape: ModelShape, block: Block) -> Gathered:
    """Of the parameters that are gathered for a block."""
    one = _gathered(shape, block.parameters if block.gathers is None else block.gathers)
    again = _gathered(shape, block.gathers_again)
    stays = not shape.sharding.reshard_after_forward or not block.resharded
    return evolve(one, again=again.flat + again.copied - again.weights, stays=stays)


def _gathered(shape: ModelShape, together: tuple[Parameter, ...]) -> Gathered:
    rest = tuple(each for each in together if not each.expert)
    experts = tuple(each for each in together if each.expert)
    parts = [_part(shape, each) for each in (rest, experts) if each]
    flat, weights = sum(each.flat for each in parts), sum(each.weights for each in parts)
    return Gathered(
        weights=weights,
        flat=flat,
        lasting=parts[-1].lasting if parts else 0,
        sent=max((each.sent - sum(one.flat for one in parts[n + 1 :]) for n, each in enumerate(parts)), default=0),
        copied=max((_copied(parts, n) for n in range(len(parts))), default=0),
    )


class Arrivals:
    """The bytes of gathered weights of a chunk at each of its blocks.

    Args:
        gathered: of the blocks.
        ahead: the next block's weights arrive while a block runs forward, too.
    """

    def __init__(self, gathered: Sequence[Gathered], *, ahead: bool) -> None:
        self.gathered, self.ahead = gathered, ahead

    def stay(self, position: int) -> int:
        """Of the blocks before, what is not freed after their forward pass, nor after that of this one."""
        return 0 if self.gathered[position].returns else self._lasting(position)

    def constant(self, position: int) -> int:
        """What is there all the while that a block runs."""
        return self.stay(position) + (self.gathered[position].weights if self.gathered[position].stays else 0)

    def forward(self, position: int) -> Iterator[int]:
        """While a block's weights arrive for its forward pass."""
        one, stay = self.gathered[position], self.stay(position)
        if not one.weights:
            return
        if one.flat and not (self.ahead and position):
            yield stay + (self.gathered[position - 1].lasting if position else 0) + one.flat + one.sent
        yield stay + one.flat + one.copied
        after = self._next(position)
        yield stay + one.weights + one.lasting + after.flat + after.sent

    def beside_forward(self, position: int) -> int:
        """What is there beside until the loss, which no weights are needed for: buffers, and its own weights."""
        return self.gathered[position].lasting + self._next(position).flat + self._own(position)

    def beside_backward(self, position: int) -> int:
        """The same from after the loss."""
        return self.before(position).flat + self._own(position)

    def backward(self, position: int) -> int:
        """While its weights arrive for its backward pass; 0: they are there."""
        one = self.gathered[position]
        if one.again:
            return self.constant(position) + self._own(position) + one.again
        return 0 if one.stays or not one.weights else self.stay(position) + one.flat + one.copied

    def before(self, position: int) -> Gathered:
        """What arrives while it runs backward: the weights of the block before."""
        one = self.gathered[position - 1] if position else Gathered()
        return Gathered() if one.stays else one

    def _lasting(self, position: int) -> int:
        return sum(one.weights for one in self.gathered[:position] if one.stays)

    def _own(self, position: int) -> int:
        """What it computes with and does not stay."""
        one = self.gathered[position]
        return self._lasting(position) if one.returns else 0 if one.stays else one.weights

    def _next(self, position: int) -> Gathered:
        last = position == len(self.gathered) - 1
        return self.gathered[position + 1] if self.ahead and not last else Gathered()


class Turns(Arrivals):
    """The same with a pipeline, where weights are freed after a block's forward pass and not after its backward pass.

    Args:
        there: what ran before was a backward pass, so that all are gathered.
        backward: it is a backward pass that runs now.
    """

    def __init__(self, gathered: Sequence[Gathered], *, ahead: bool, there: bool, backward: bool) -> None:
        super().__init__(gathered, ahead=ahead)
        self.there, self.is_backward = there, backward

    def stay(self, position: int) -> int:
        """Of the other blocks, what is there while one runs."""
        after = sum(one.weights for one in self.gathered[position + 1 :]) if self.there or self.is_backward else 0
        if self.there and self.is_backward:
            return after + sum(one.weights for one in self.gathered[:position])
        return after + super().stay(position)

    def forward(self, position: int) -> Iterator[int]:
        """While a block's weights arrive for its forward pass."""
        return iter(()) if self.there else super().forward(position)

    def beside_forward(self, position: int) -> int:
        """What is there beside until the loss."""
        return self.gathered[position].weights if self.there else super().beside_forward(position)

    def backward(self, position: int) -> int:
        """While its weights arrive for its backward pass; 0: they are there."""
        return 0 if self.there else super().backward(position)

    def before(self, position: int) -> Gathered:
        """What arrives while it runs backward: the weights of the block before."""
        return Gathered() if self.there else super().before(position)


def _part(shape: ModelShape, together: tuple[Parameter, ...]) -> Gathered:
    """Shards are converted together, and weights of another dimension than the first are copied twice. What is on one
    rank alone is converted and copied tensor by tensor, and each conversion stays until the next has been made."""
    whole = gathering_of(together, shape).weights
    converted = [gathering_of((each,), shape).sent if _converts(shape, each) else 0 for each in together]
    if shard_ranks(together[0], shape) > 1:
        twice = gathering_of((each for each in together if each.shard_dimension), shape).weights
        return Gathered(weights=whole, flat=whole, lasting=whole, sent=sum(converted), copied=whole + twice)
    made, before, most = 0, 0, 0
    for each, own in zip(together, converted, strict=True):
        size = gathering_of((each,), shape).weights
        most = max(most, made + before + own, made + size + own)
        made, before = made + size, own
    return Gathered(weights=whole, copied=max(most, whole))


def _converts(shape: ModelShape, parameter: Parameter) -> bool:
    return shape.sharding.main not in (None, parameter.dtype)


def _copied(parts: Sequence[Gathered], position: int) -> int:
    """Beside all buffers, when the weights of a part are copied: those before have been, and their buffers are gone."""
    before = parts[:position]
    return sum(each.weights - each.flat for each in before) + parts[position].copied
