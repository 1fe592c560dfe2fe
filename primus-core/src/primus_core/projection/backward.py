"""One micro batch backward through the blocks of a pipeline stage's chunk, from the last to the first.

A block's gradients stay until it has run backward. Then they are reduced, or added to those of other micro batches.
"""

from __future__ import annotations

from itertools import groupby

from primus_core.projection.chunk import Backward, Chunk, Forward, Most
from primus_core.projection.gathering import Arrivals
from primus_core.projection.keeping import gone, released
from primus_core.projection.memory import GATHERED, GRADIENTS, INPUT, WEIGHT_GRADIENTS, Moment, Parts, minus, plus
from primus_core.projection.reducing import REDUCING, SHARDS, Reducing, added
from primus_core.projection.setting import Setting
from primus_core.projection.tape import backward, forward, output_of
from primus_core.projection.units import Unit


class _Back:
    """A backward pass through a chunk, block by block from the last."""

    def __init__(
        self, chunk: Chunk, ran: Forward, trained: bool, halved: bool, pending: bool, remained: bool, arrivals: Arrivals
    ) -> None:
        self.chunk, self.ran, self.trained, self.halved = chunk, ran, trained, halved
        self.pending = chunk.pending if pending else 0
        self.peak = Most()
        self.remained = remained
        self.live = plus(ran.kept, {INPUT: chunk.remains if remained else 0})
        self.gradient = chunk.sent
        self.reducing = Reducing()
        self.shards = 0
        self.accumulated = 0
        self.arrivals = arrivals
        self.waiting = self.passing = 0
        self.left: Parts = {}

    def run(self) -> Backward:
        numbered = list(enumerate(self.chunk.units))
        for _, members in groupby(
            reversed(numbered), key=lambda each: (each[1].group, each[1].group is None and each[0])
        ):
            positions = [position for position, _ in members]
            if self.chunk.units[positions[0]].group is None:
                self._block(positions[0], self.ran.sources[positions[0]], self.ran.lefts[positions[0]])
                block = self.chunk.units[positions[0]].block
                self.live = plus(self.live, {INPUT: block.remains if block.recomputed and not self.remained else 0})
            else:
                self._group(positions)
        return Backward(most=self.peak.most, left=self._waiting() if self.halved else self.left)

    def _waiting(self) -> Parts:
        """What stays for the gradients of weights: PyTorch lets go of what only the loss was computed from."""
        received = self.chunk.received if self.chunk.holds_received else 0
        block = self.chunk.units[-1].block
        weighing = {index for index, op in enumerate(block.operators) if op.weights}
        left = minus(self.left, released(block, gone(block, weighing)))
        return plus(left, {INPUT: self.ran.sent + received})

    def _group(self, positions: list[int]) -> None:
        """Runs blocks forward again from the input of the first, then backward."""
        order = sorted(positions)
        again: list[tuple[int, int, Parts]] = []
        live, source = {GRADIENTS: self.gradient}, 0
        for position in order:
            last = position == order[-1]
            unit, partly = self.chunk.units[position], last and not self.chunk.whole
            setting = Setting(source=source)
            ran = forward(unit.block, unit.name, setting, partly=partly)
            self.peak.see(ran.most, self.live, live, self._constant())
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
        remains = max(self.chunk.units[position].block.remains for position in order)
        before = remains if self.remained else 0
        self.live = plus(self.live, {INPUT: self.passing + remains // 2 - before})
        self.passing = remains - remains // 2

    def _block(self, position: int, source: int, left: Parts) -> None:
        unit = self.chunk.units[position]
        self.live = minus(self.live, left)
        arriving = {GATHERED: self.arrivals.backward(position)}
        if any(arriving.values()):
            held = plus(left, {GRADIENTS: self.gradient})
            self.peak.see(Moment(at=f"{unit.name}: weights are gathered"), held, self.live, arriving, self._constant())
        last = position == len(self.chunk.units) - 1
        holds = self.chunk.holds_gradient and last
        setting = Setting(
            source=source,
            gradient=self._gradient(position),
            weights=unit.weights,
            holds_weights=self.chunk.fully and not (self.trained and self.chunk.sums and not unit.pending),
            lent=self.arrivals.beside_backward(position),
            sent=self.arrivals.before(position).sent,
            whole=self.chunk.whole,
            holds_output=self.chunk.holds_output,
            keeps_all=self.halved,
            holds_gradient=holds,
            buffered=self.chunk.buffered and last and self.chunk.sent > 0,
        )
        ran = backward(unit.block, unit.name, setting, self.gradient)
        self.peak.see(ran.most, self.live, {GATHERED: self.arrivals.constant(position)}, self._constant())
        self.gradient = ran.output
        self.live = plus(self.live, {GRADIENTS: self.chunk.sent if holds else 0})
        if self.halved:
            self.live = plus(self.live, ran.left)
            self.left = plus(self.left, ran.left)
            self._move(unit)
        elif self.chunk.fully:
            self._settle(position, dict(ran.left))
        self.live = plus(self.live, {INPUT if self.chunk.fully else WEIGHT_GRADIENTS: unit.block.leaves})

    def _settle(self, position: int, held: Parts) -> None:
        """The gradients of the block's weights are reduced, or added to those of other micro batches."""
        unit, made = self.chunk.units[position], held.pop(WEIGHT_GRADIENTS, 0)
        if not self.chunk.reduces:
            self._add(unit, (self.live, {GRADIENTS: self.gradient}))
        elif unit.reduced:
            self._reduce(position, held, told=made + self.waiting > 0)
        else:
            self.waiting += made
            self.live = plus(self.live, {WEIGHT_GRADIENTS: made})

    def _reduce(self, position: int, held: Parts, *, told: bool) -> None:
        """Gradients that wait for those of a block are reduced with them; without any it is told as an operator's."""
        unit, stay = self.chunk.units[position], self.arrivals.stay(position) + self.arrivals.before(position).flat
        self.live = minus(self.live, {WEIGHT_GRADIENTS: self.waiting})
        self.waiting = 0
        beside = plus(plus(self.live, held), {GRADIENTS: self.gradient})
        for index, one in reversed(list(enumerate(unit.reduced))):
            before = unit.reduced[:index]
            around = {GATHERED: stay + sum(each.weights for each in before)}
            left = {WEIGHT_GRADIENTS: sum(sum(each.gradients) for each in before)}
            whole = sum(one.gradients)
            for more in one.summing(False):
                moment = Moment(at=f"{unit.name}: gradients are summed")
                self.peak.see(moment, beside, around, left, {WEIGHT_GRADIENTS: whole + more}, self._constant())
            copied: tuple[Parts, Parts] = ({WEIGHT_GRADIENTS: sum(one.shares(False))}, {})
            steps = self.reducing.run(one, frees=index == len(unit.reduced) - 1)
            for gradients, parts in zip(copied, steps, strict=True):
                moment = Moment(at=f"{unit.name}: gradients are reduced")
                if told:
                    self.peak.see(moment, beside, around, left, gradients, parts, self._fresh())
            self.shards += one.shard
            self.reducing.keep(one, trained=self.trained, passing=not told)

    def _add(self, unit: Unit, beside: tuple[Parts, ...]) -> None:
        """Gradients are converted the first time, where they are added in another format than they are made in."""
        if not self.trained:
            for parts in added(unit.reduced):
                self.peak.see(Moment(at=f"{unit.name}: gradients are added"), parts, *beside, self._fresh())
        self._move(unit)

    def _move(self, unit: Unit) -> None:
        """Gradients of its weights that are pending are added to those before, or become them."""
        if not self.halved or self.pending:
            self.accumulated += unit.accumulated
        self.pending -= min(self.pending, unit.pending)

    def _constant(self) -> Parts:
        """What lives whatever block runs."""
        return plus(
            self._fresh(), {REDUCING: self.reducing.buffers + self.reducing.parts, WEIGHT_GRADIENTS: self.pending}
        )

    def _fresh(self) -> Parts:
        """Gradients of weights that were not there before."""
        return {} if self.trained else {SHARDS: self.shards, WEIGHT_GRADIENTS: self.accumulated}

    def _gradient(self, position: int) -> int:
        if position == 0:
            return self.chunk.received
        return output_of(self.chunk.units[position - 1].block)[1]


def run_backward(
    chunk: Chunk,
    ran: Forward,
    *,
    trained: bool = False,
    halved: bool = False,
    pending: bool = False,
    gathered: bool = False,
    remained: bool = False,
) -> Backward:
    """Runs all blocks backward.

    Args:
        chunk: that has run forward.
        ran: what stayed of it.
        trained: it has run backward before, and the gradients of its weights are there.
        halved: the gradients of weights come later, and all that was kept stays until then.
        pending: those of the micro batch before have not been added to the others.
        gathered: with a chunk that `frees`, all weights are there before.
        remained: it ran backward last, not forward, and the library still refers to what was recomputed then.
    """
    arrivals = chunk.arrivals(there=gathered, backward=True)
    return _Back(chunk, ran, trained, halved, pending, remained, arrivals).run()
