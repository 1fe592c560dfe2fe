"""One micro batch through the blocks of a pipeline stage's chunk: what stays of it, and the most that lives meanwhile.

With fully sharded weights the order of PyTorch's FSDP2 (torch 2.13) is followed: a block's weights arrive in one flat
buffer and are copied out of it; the buffer stays until the next block's has been copied. In the backward pass the next
block's buffer is filled while a block works. Gradients stay until the block has run backward, are copied to a buffer
that lives until the next block's is made, and arrive as shards.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from attrs import field

from primus_core.projection.memory import GATHERED, GRADIENTS, INPUT, WEIGHT_GRADIENTS, Moment, Parts, minus, plus
from primus_core.projection.tape import Setting, backward, forward, output_of
from primus_core.projection.units import Unit
from primus_core.records import frozen

REDUCING = "gradients being reduced"
SHARDS = "sharded gradients"


@frozen(kw_only=True)
class Chunk:
    """What a chunk runs.

    Attributes:
        units: its blocks.
        received: bytes of what the stage before sends, and of its gradient; 0 for the first stage.
        sent: of the gradient that the stage after sends back; 0 for the last stage.
        keeps_sent: what it sends stays until it has run backward.
        holds_gradient: so does the gradient that is sent back.
        buffered: what arrives is in buffers that live anyway.
        whole: recomputed blocks run again to their end.
        holds_output: what they make then is held until they have run backward.
        gathers: weights are gathered block by block.
        reduces: gradients are reduced block by block; else they stay until the last micro batch.
        fully: weights are fully sharded.
    """

    units: tuple[Unit, ...]
    received: int = 0
    sent: int = 0
    keeps_sent: bool = False
    holds_gradient: bool = False
    buffered: bool = False
    whole: bool = True
    holds_output: bool = True
    gathers: bool = False
    reduces: bool = False
    fully: bool = False

    @property
    def accumulated(self) -> Parts:
        """Gradients of weights that are there once it has run backward, beside those that are static."""
        if not self.fully:
            return {}
        if self.reduces:
            return plus({SHARDS: sum(unit.gathered.shard for unit in self.units)}, {})
        return plus({WEIGHT_GRADIENTS: sum(unit.accumulated for unit in self.units)}, {})


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
    gathered: int = 0
    """Of weights that stay gathered."""


@frozen(kw_only=True)
class Backward:
    """It has run backward."""

    most: Moment
    left: Parts = field(factory=dict)
    """Of this micro batch, where the gradients of weights come later."""


class _Peak:
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


def run_forward(chunk: Chunk) -> Forward:
    """Runs all blocks forward; what was received stays."""
    peak, live = _Peak(), plus({INPUT: 0 if chunk.buffered else chunk.received}, {})
    lefts: list[Parts] = []
    sources: list[int] = []
    source, flat, stays, group = 0, 0, 0, None
    for unit in chunk.units:
        first = unit.group is not None and unit.group != group
        group = unit.group
        left: Parts = plus({INPUT: source}, {}) if first else {}
        own = 0 if first else source
        live = plus(live, left)
        own_flat = unit.gathered.flat if chunk.gathers else 0
        if chunk.gathers:
            arriving = {INPUT: own, GATHERED: stays + flat + own_flat + unit.gathered.arriving}
            peak.see(Moment(at=f"{unit.name}: weights are gathered"), arriving, live)
        setting = Setting(source=own, lent=own_flat)
        ran = forward(unit.block, unit.name, setting, keep=unit.group is None)
        peak.see(ran.most, live, {GATHERED: stays + (unit.gathered.weights if chunk.gathers else 0)})
        left = left if unit.group is not None else dict(ran.left)
        live = live if unit.group is not None else plus(live, left)
        lefts.append(left)
        sources.append(own)
        source, flat = (0 if ran.owns_output else ran.output), own_flat
        stays += unit.gathered.weights if chunk.gathers and unit.gathered.stays else 0
    if chunk.keeps_sent:
        live = plus(live, {INPUT: source})
    return Forward(most=peak.most, kept=live, lefts=tuple(lefts), sources=tuple(sources), gathered=stays)


class _Back:
    """A backward pass through a chunk, block by block from the last."""

    def __init__(self, chunk: Chunk, ran: Forward, trained: bool, halved: bool) -> None:
        self.chunk, self.ran, self.trained, self.halved = chunk, ran, trained, halved
        self.peak = _Peak()
        self.live = dict(ran.kept)
        self.gradient = chunk.sent
        self.reducing = 0
        self.shards = 0
        self.accumulated = 0
        self.stays = ran.gathered
        self.left: Parts = {}

    def run(self) -> Backward:
        numbered = list(enumerate(self.chunk.units))
        for _, members in groupby(
            reversed(numbered), key=lambda each: (each[1].group, each[1].group is None and each[0])
        ):
            positions = [position for position, _ in members]
            if self.chunk.units[positions[0]].group is None:
                self._block(positions[0], self.ran.sources[positions[0]], self.ran.lefts[positions[0]])
            else:
                self._group(positions)
        return Backward(most=self.peak.most, left=self.left)

    def _group(self, positions: list[int]) -> None:
        """Runs blocks forward again from the input of the first, then backward."""
        order = sorted(positions)
        again: list[tuple[int, int, Parts]] = []
        live, source = {GRADIENTS: self.gradient}, 0
        for position in order:
            last = position == order[-1]
            unit, partly = self.chunk.units[position], last and not self.chunk.whole
            setting = Setting(source=source, lent=self._lent(position) if last else 0)
            ran = forward(unit.block, unit.name, setting, partly=partly)
            self.peak.see(ran.most, self.live, live, self._around(position), self._constant())
            again.append((position, source, dict(ran.left)))
            live = plus(live, ran.left)
            source = 0 if ran.owns_output else ran.output
        copy = {INPUT: source} if self.chunk.holds_output else {}
        self.live = plus(self.live, copy)
        for _, _, left in again:
            self.live = plus(self.live, left)
        for position, own, left in reversed(again):
            self._block(position, own, left)
        self.live = minus(self.live, plus(copy, self.ran.lefts[order[0]]))

    def _block(self, position: int, source: int, left: Parts) -> None:
        unit = self.chunk.units[position]
        self.live = minus(self.live, left)
        arriving = self._arriving(position)
        if arriving:
            held = plus(left, {GRADIENTS: self.gradient})
            self.peak.see(Moment(at=f"{unit.name}: weights are gathered"), held, self.live, arriving, self._constant())
        last = position == len(self.chunk.units) - 1
        holds = self.chunk.holds_gradient and last
        setting = Setting(
            source=source,
            gradient=self._gradient(position),
            weights=unit.weights,
            holds_weights=self.chunk.fully,
            lent=self._lent(position),
            whole=self.chunk.whole,
            holds_output=self.chunk.holds_output,
            keeps_all=self.halved,
            holds_gradient=holds,
            buffered=self.chunk.buffered and last and self.chunk.sent > 0,
        )
        ran = backward(unit.block, unit.name, setting, self.gradient)
        self.peak.see(ran.most, self.live, self._around(position), self._constant())
        self.gradient = ran.output
        self.live = plus(self.live, {GRADIENTS: self.chunk.sent if holds else 0})
        if self.halved:
            self.live = plus(self.live, ran.left)
            self.left = plus(self.left, ran.left)
        elif self.chunk.fully:
            self._settle(position, dict(ran.left))
        else:
            self.live = plus(self.live, {WEIGHT_GRADIENTS: unit.block.leaves})

    def _settle(self, position: int, held: Parts) -> None:
        """The gradients of the block's weights are reduced, or added to those of other micro batches."""
        unit = self.chunk.units[position]
        gathered = unit.gathered
        beside = (self.live, {GRADIENTS: self.gradient})
        if not self.chunk.reduces:
            self.accumulated += unit.accumulated
            self.peak.see(Moment(at=f"{unit.name}: gradients are added"), held, *beside, self._constant())
            return
        self.reducing = gathered.reducing
        prefetched = {GATHERED: self._lent(position)}
        moment = Moment(at=f"{unit.name}: gradients are reduced")
        self.peak.see(moment, held, *beside, prefetched, self._constant())
        comes = gathered.reduced + gathered.dividing
        arrives = {REDUCING: comes, SHARDS: gathered.shard if gathered.converts else 0}
        self.peak.see(moment, arrives, *beside, prefetched, self._constant())
        self.shards += gathered.shard

    def _constant(self) -> Parts:
        """What lives whatever block runs."""
        fresh = {} if self.trained else {SHARDS: self.shards, WEIGHT_GRADIENTS: self.accumulated}
        return plus(fresh, {REDUCING: self.reducing})

    def _around(self, position: int) -> Parts:
        """Gathered weights of the block and of those that stay until their turn."""
        if not self.chunk.gathers:
            return {}
        stay = sum(unit.gathered.weights for unit in self.chunk.units[:position] if unit.gathered.stays)
        return {GATHERED: stay + self.chunk.units[position].gathered.weights}

    def _arriving(self, position: int) -> Parts:
        gathered = self.chunk.units[position].gathered
        if not self.chunk.gathers or gathered.stays:
            return {}
        beside = self._around(position)[GATHERED] - gathered.weights
        return {GATHERED: beside + gathered.flat + gathered.arriving}

    def _lent(self, position: int) -> int:
        """The buffer of the block that comes next, which is filled while this one works."""
        if not self.chunk.gathers or position == 0:
            return 0
        before = self.chunk.units[position - 1].gathered
        return 0 if before.stays else before.flat

    def _gradient(self, position: int) -> int:
        if position == 0:
            return self.chunk.received
        return output_of(self.chunk.units[position - 1].block)[1]


def run_backward(chunk: Chunk, ran: Forward, *, trained: bool = False, halved: bool = False) -> Backward:
    """Runs all blocks backward.

    Args:
        chunk: that has run forward.
        ran: what stayed of it.
        trained: it has run backward before, and the gradients of its weights are there.
        halved: the gradients of weights come later, and all that was kept stays until then.
    """
    return _Back(chunk, ran, trained, halved).run()
