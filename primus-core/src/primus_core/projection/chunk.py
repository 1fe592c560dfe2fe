"""One micro batch through the blocks of a pipeline stage's chunk: what stays of it, and the most that lives meanwhile.

With fully sharded weights the order of PyTorch's FSDP2 (torch 2.13) is followed: a block's weights arrive in one flat
buffer and are copied out of it; the buffer stays until the next block's has been copied. In the backward pass the next
block's buffer is filled while a block works. Gradients stay until the block has run backward, are copied to a buffer
that lives until the next block's is made, and arrive as shards.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field

from primus_core.projection.gathering import Arrivals, Gathered, Turns
from primus_core.projection.memory import GATHERED, INPUT, WEIGHT_GRADIENTS, Moment, Parts, plus
from primus_core.projection.reducing import SHARDS, all_reduced
from primus_core.projection.setting import Setting
from primus_core.projection.tape import forward
from primus_core.projection.units import Unit
from primus_core.records import frozen


@frozen(kw_only=True)
class Chunk:
    """What a chunk runs.

    Attributes:
        units: its blocks.
        received: bytes of what the stage before sends, and of its gradient; 0 for the first stage.
        sent: of the gradient that the stage after sends back; 0 for the last stage.
        keeps_sent: what it sends stays until it has run backward.
        holds_gradient: so does the gradient that is sent back.
        holds_received: where gradients of weights come later, that of what is received stays until then.
        given: bytes of the gradient of what is received, where it stays to the end of the step instead.
        buffered: what arrives is in buffers that live anyway.
        whole: recomputed blocks run again to their end.
        holds_output: what they make then is held until they have run backward.
        gathers: weights are gathered block by block.
        reduces: gradients are reduced block by block; else they stay until the last micro batch.
        gathers_ahead: those of the next block while one runs forward.
        frees: with a pipeline, after each forward pass.
        fully: weights are fully sharded.
    """

    units: tuple[Unit, ...]
    received: int = 0
    sent: int = 0
    keeps_sent: bool = False
    holds_gradient: bool = False
    holds_received: bool = False
    given: int = 0
    buffered: bool = False
    whole: bool = True
    holds_output: bool = True
    gathers: bool = False
    reduces: bool = False
    gathers_ahead: bool = False
    frees: bool = False
    fully: bool = False

    def arrivals(self, *, there: bool, backward: bool) -> Arrivals:
        """What is gathered block by block in one pass; with `frees`, all weights may be `there` already."""
        gathered = [unit.gathered if self.gathers or self.frees else Gathered() for unit in self.units]
        if self.frees:
            return Turns(gathered, ahead=self.gathers_ahead, there=there, backward=backward)
        return Arrivals(gathered, ahead=self.gathers_ahead)

    @property
    def sums(self) -> bool:
        """Gradients of fully sharded weights are added up over the micro batches, and weights stay gathered."""
        return self.fully and not self.reduces

    @property
    def gathered(self) -> int:
        """Bytes of these weights."""
        return sum(unit.gathered.weights for unit in self.units) if self.sums else 0

    @property
    def early(self) -> int:
        """Bytes of the buffers that gradients were sent from which are reduced after each micro batch."""
        return sum(unit.accumulated for unit in self.units if unit.block.reduced_early)

    @property
    def remains(self) -> int:
        """Bytes of what the library still refers to after all that is recomputed has run backward, until it runs
        again."""
        alone = sum(unit.block.remains for unit in self.units if unit.group is None and unit.block.recomputed)
        groups: dict[int, int] = {}
        for unit in self.units:
            if unit.group is not None:
                groups[unit.group] = max(unit.block.remains, groups.get(unit.group, 0))
        return alone + sum(groups.values())

    @property
    def pending(self) -> int:
        """Bytes of gradients of weights as the forward pass has them, where they are added up in another format."""
        return sum(unit.pending for unit in self.units)

    @property
    def reduction(self) -> Moment:
        """The most of its own that lives while these gradients are reduced after its last micro batch."""
        peak = Most()
        for parts in all_reduced([unit.reduced for unit in self.units]) if self.sums else ():
            peak.see(Moment(at="gradients are reduced"), parts)
        return peak.most

    @property
    def accumulated(self) -> Parts:
        """Gradients of weights that are there once it has run backward, beside those that are static."""
        if not self.fully:
            return {}
        if self.reduces:
            return self.shards
        return plus({WEIGHT_GRADIENTS: sum(unit.accumulated for unit in self.units)}, {})

    @property
    def shards(self) -> Parts:
        """The same once they have been reduced."""
        return plus({SHARDS: sum(one.shard for unit in self.units for one in unit.reduced)}, {})


@frozen(kw_only=True)
class Forward:
    """A chunk has run forward."""

    most: Moment
    kept: Parts
    """Of this micro batch, until it has run backward."""
    lefts: tuple[Parts, ...]
    """By unit what it keeps."""
    sources: tuple[int, ...]
    """By unit the bytes of its input; 0 where it is kept by another."""
    sent: int = 0
    """Of `kept`, what was sent."""


@frozen(kw_only=True)
class Backward:
    """It has run backward."""

    most: Moment
    left: Parts = field(factory=dict)
    """Of this micro batch, where the gradients of weights come later."""


class Most:
    """The most of all moments seen."""

    def __init__(self) -> None:
        self.most = Moment()

    def see(self, moment: Moment, *others: Mapping[str, int]) -> None:
        """A moment with what lives beside it."""
        total = moment.bytes + sum(sum(parts.values()) for parts in others)
        if total > self.most.bytes:
            for parts in others:
                moment = moment.beside(parts)
            self.most = moment


def run_forward(chunk: Chunk, *, gathered: bool = False) -> Forward:
    """Runs all blocks forward; what was received stays.

    Args:
        gathered: with a chunk that `frees`, all weights are there before.
    """
    peak, live = Most(), plus({INPUT: 0 if chunk.buffered else chunk.received}, {})
    lefts: list[Parts] = []
    sources: list[int] = []
    source, group, arrivals = 0, None, chunk.arrivals(there=gathered, backward=False)
    for index, unit in enumerate(chunk.units):
        first = unit.group is not None and unit.group != group
        group = unit.group
        left: Parts = plus({INPUT: source}, {}) if first else {}
        own = 0 if first else source
        live = plus(live, left)
        for size in arrivals.forward(index):
            peak.see(Moment(at=f"{unit.name}: weights are gathered"), {INPUT: own, GATHERED: size}, live)
        setting = Setting(source=own, lent=arrivals.beside_forward(index))
        ran = forward(unit.block, unit.name, setting, keep=unit.group is None)
        peak.see(ran.most, live, {GATHERED: arrivals.constant(index)})
        left = left if unit.group is not None else dict(ran.left)
        live = live if unit.group is not None else plus(live, left)
        lefts.append(left)
        sources.append(own)
        source = 0 if ran.owns_output else ran.output
    sent = source if chunk.keeps_sent else 0
    return Forward(
        most=peak.most,
        kept=plus(live, {INPUT: sent}),
        lefts=tuple(lefts),
        sources=tuple(sources),
        sent=sent,
    )
