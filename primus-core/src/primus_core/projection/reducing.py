"""How gradients of fully sharded weights are reduced, as PyTorch's FSDP2 does it (torch 2.13, ``foreach_reduce``).

They are copied into one buffer, which is sent from; a rank's part of the sum arrives in another. The copied gradients
are let go but those that variables of the function still name. The buffer that was sent from stays until that of the
next block is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from primus_core.projection.fullysharded import gathering_of, shard_of, shard_ranks
from primus_core.projection.memory import GATHERED, WEIGHT_GRADIENTS, Parts, plus
from primus_core.projection.places import FIRST, Place, computed, held, local, size_of
from primus_core.records import frozen
from primus_core.shape import Block, ModelShape, Parameter

REDUCING = "gradients being reduced"
SHARDS = "sharded gradients"


@frozen(kw_only=True)
class Reduced:
    """Weights of a block whose gradients are reduced in one collective. All sizes are bytes."""

    weights: int
    """Whole, as they are gathered."""
    gradients: tuple[int, ...]
    """Of each, in the format of the forward pass."""
    accumulated: tuple[int, ...]
    """The same in the format in which they are reduced."""
    sums: tuple[int, ...]
    """By gradient: of so many ranks each has a part of its sum, so many times as large as the share that is reduced."""
    buffer: int
    """All of them with padding, in that format: they are sent from it."""
    part: int
    """What a rank gets."""
    replicated: bool
    """Parts are summed over copies of the model: torch refers to each until the backward pass is over."""
    divided: int
    """A copy of the buffer: where a rank is alone torch divides the gradients, by one."""
    shard: int
    """The part as it is kept."""
    converts: bool
    """Its format is another than the buffer's."""
    named: tuple[int, ...]
    """Positions of the gradients that stay until the sum has arrived: the last, and the last that is cut along another
    dimension than its first."""
    recut: int | None
    """Position of the latter; all such gradients are copied once more before they are in the buffer."""

    def sizes(self, accumulated: bool) -> tuple[int, ...]:
        """Of the gradients in the one format or the other."""
        return self.accumulated if accumulated else self.gradients

    def shares(self, accumulated: bool) -> tuple[int, ...]:
        """The same once sums over other ranks are divided."""
        return tuple(size // ranks for size, ranks in zip(self.sizes(accumulated), self.sums, strict=True))

    def summing(self, accumulated: bool) -> Iterator[int]:
        """What more lives than `sizes` while sums are divided, one after the other: a copy of one that is in the order
        of its shares, and this rank's."""
        done = 0
        for size, share in zip(self.sizes(accumulated), self.shares(accumulated), strict=True):
            if share < size:
                yield size + share - done
            done += size - share


class Reducing:
    """What lives while gradients are reduced, block after block."""

    def __init__(self) -> None:
        self.buffers = 0
        """They were sent from, and stay."""
        self.parts = 0
        """They were summed over copies of the model, and stay beside the shards."""
        self._passing = 0
        """Of these, what the next parts take the place of."""

    def run(self, one: Reduced, *, frees: bool, accumulated: bool = False) -> Iterator[Parts]:
        """While gradients are copied, all of which live beside, and while they are reduced, when those do not. The copy
        that is divided is gone when its sum is converted.

        Args:
            frees: buffers of blocks before are let go of first.
        """
        sizes = one.shares(accumulated)
        self.buffers = one.buffer + (0 if frees else self.buffers)
        buffers = self.buffers + self.parts
        yield {REDUCING: buffers, WEIGHT_GRADIENTS: 0 if one.recut is None else sizes[one.recut]}
        converted = one.shard if one.converts else 0
        yield {
            REDUCING: buffers + one.part + max(0, one.divided - converted),
            WEIGHT_GRADIENTS: sum(sizes[position] for position in one.named),
            SHARDS: converted,
        }

    def keep(self, one: Reduced, *, trained: bool = False, passing: bool = False) -> None:
        """A part is a shard that stays, unless it is converted, or added to that of another micro batch.

        Args:
            trained: there was such a micro batch.
            passing: torch reduces the next block's gradients in the name of this one.
        """
        part = one.part if one.replicated and (one.converts or trained) else 0
        self.parts += part - self._passing
        self._passing = part if passing else 0


def reduced_of(shape: ModelShape, block: Block) -> tuple[Reduced, ...]:
    """In the order in which they are gathered: experts that other ranks have shards of than of the rest are last."""
    parameters = block.parameters if block.reduces is None else block.reduces
    rest = tuple(each for each in parameters if not each.expert)
    experts = tuple(each for each in parameters if each.expert)
    return tuple(_reduced(shape, together) for together in (rest, experts) if together)


def reduced_again(shape: ModelShape, stage: int, place: Place = FIRST) -> int:
    """Bytes of shards of gradients that a pipeline rank has twice: what comes second is added to the first, and stays
    as a part of the buffer that others' shards are in."""
    names = {run.block for run in held(shape, stage)}
    told = [parameter for name in names for parameter in shape.blocks[name].reduces or ()]
    twice = {parameter for parameter in told if told.count(parameter) > 1}
    return sum(size_of(shard_of(each, shape, place).stored, shape.sharding.main or each.dtype) for each in twice)


def added(groups: Sequence[Reduced]) -> Iterator[Parts]:
    """What lives of a block's gradients while they are converted for the first time, one after the other."""
    left, made = sum(sum(one.gradients) for one in groups), 0
    for one in reversed(groups):
        for before, after in zip(one.gradients, one.accumulated, strict=True):
            made += after
            yield {WEIGHT_GRADIENTS: left + made}
            left -= before


def all_reduced(blocks: Sequence[Sequence[Reduced]]) -> Iterator[Parts]:
    """What lives while a whole chunk's gradients, which were added up, are reduced from its first block on."""
    groups = [(one, one is groups[-1]) for groups in blocks for one in groups]
    gradients = sum(sum(one.accumulated) for one, _ in groups)
    gathered, shards, reducing = sum(one.weights for one, _ in groups), 0, Reducing()
    for one, last in groups:
        for more in one.summing(True):
            living = {WEIGHT_GRADIENTS: gradients + more, REDUCING: reducing.buffers + reducing.parts}
            yield plus(living, {GATHERED: gathered, SHARDS: shards})
        gradients -= sum(one.accumulated)
        gathered -= one.weights
        steps = reducing.run(one, frees=last, accumulated=True)
        for copied, moment in zip((False, True), steps, strict=True):
            left = gradients + (0 if copied else sum(one.shares(True)))
            yield plus(moment, {WEIGHT_GRADIENTS: left, GATHERED: gathered, SHARDS: shards})
        shards += one.shard
        reducing.keep(one)


def _reduced(shape: ModelShape, together: tuple[Parameter, ...]) -> Reduced:
    sharding, gathering = shape.sharding, gathering_of(together, shape)
    alone = all(shard_ranks(each, shape) == 1 for each in together)
    recut = max((index for index, each in enumerate(together) if each.shard_dimension), default=None)
    recut = None if alone else recut
    return Reduced(
        weights=gathering.weights,
        gradients=tuple(size_of(computed(each, shape), each.dtype) for each in together),
        accumulated=tuple(size_of(computed(each, shape), sharding.gradient) for each in together),
        sums=tuple(prod(computed(each, shape)) // prod(local(each, shape)) for each in together),
        buffer=gathering.gradients,
        part=gathering.reduced,
        replicated=shape.group("replicate") > 1,
        divided=gathering.gradients if alone else 0,
        shard=sum(size_of(shard_of(each, shape).stored, sharding.main or each.dtype) for each in together),
        converts=(sharding.main or sharding.gradient) != sharding.gradient,
        named=() if alone else tuple({len(together) - 1, *(() if recut is None else (recut,))}),
        recut=recut,
    )
