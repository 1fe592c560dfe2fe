"""The most that lives on a rank while it runs a training step, and what it is made of.

Weights, gradients and the optimizer's state that live through the whole step are not among it (see
`primus_core.projection.static`); gradients of fully sharded weights are, because they come to be in the step.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache

from attrs import field

from primus_core.projection.backward import run_backward
from primus_core.projection.chunk import Backward, Chunk, run_forward
from primus_core.projection.halves import run_weights
from primus_core.projection.memory import GATHERED, INPUT, WEIGHT_GRADIENTS, Moment, Parts, plus, times
from primus_core.projection.order import steps
from primus_core.projection.playing import Kind, Step
from primus_core.projection.reducing import SHARDS
from primus_core.projection.units import units_of
from primus_core.records import frozen
from primus_core.shape import ModelShape, Run, ScheduleName

WORKSPACE = "workspace"
_FOLDED: frozenset[ScheduleName] = frozenset({"zbv", "dualpipev"})
"""Their second chunks run through the ranks backwards; the last rank's first one passes on what its second one reads,
in the place of a buffer."""


@frozen(kw_only=True)
class Peak:
    """The most that lives at once on a rank, static memory apart.

    Attributes:
        bytes: all of it; with fully sharded weights the gradients' shards too, which are then not to be added.
        at: what ran then.
        parts: by component of the model and by the names of `primus_core.projection.memory`.
        kept: of these, what other micro batches keep.
    """

    bytes: int
    at: str
    parts: Mapping[str, int] = field(factory=dict)
    kept: Mapping[str, int] = field(factory=dict)


def peak(shape: ModelShape, stage: int) -> Peak:
    """Of a rank of a pipeline stage.

    Raises:
        ValueError: an operator names an activation or a weight that its block does not have.
    """
    rank = _Rank(shape, stage)
    told = steps(shape.schedule, stage, len(shape.stages), len(rank.chunks))
    step = max(told, key=rank.bytes)  # the first of equals
    others = rank.others(step)
    found = rank.moment(step).beside(plus(others, rank.around(step)))
    return Peak(bytes=found.bytes, at=found.at, parts=found.parts, kept=others)


def given(shape: ModelShape, stage: int) -> int:
    """Bytes of gradients of inputs that a rank of a pipeline stage still has when its optimizer works."""
    sizes = [_chunk(shape, stage, index).given for index in range(len(shape.stages[stage]))]
    if not any(sizes):
        return 0
    last = steps(shape.schedule, stage, len(shape.stages), len(sizes))[-1].given
    return sum(number * size for number, size in zip(last, sizes, strict=False))


_forward = lru_cache(maxsize=64)(run_forward)


@lru_cache(maxsize=256)
def _backward(chunk: Chunk, there: bool, kind: Kind, pending: bool, gathered: bool, remained: bool) -> Backward:
    if kind == "weight":
        return run_weights(chunk, _forward(chunk), pending=pending or there)
    halved, ran = kind == "input", _forward(chunk)
    return run_backward(chunk, ran, trained=there, halved=halved, pending=pending, gathered=gathered, remained=remained)


class _Rank:
    """A pipeline rank's chunks, each run once in every way that occurs; equal ones of other ranks are not run again."""

    def __init__(self, shape: ModelShape, stage: int) -> None:
        self.shape, self.schedule, self.stage = shape, shape.schedule, stage
        self.chunks = tuple(_chunk(shape, stage, index) for index in range(len(shape.stages[stage])))
        self.forwards = tuple(map(_forward, self.chunks))
        self._backwards: dict[tuple[int, bool, Kind, bool, bool, bool], Backward] = {}
        self._alone: dict[Hashable, int] = {}
        """By `Step.alone` the bytes of all but what other micro batches keep."""
        self._kept = tuple(sum(ran.kept.values()) for ran in self.forwards)

    def backward(
        self,
        chunk: int,
        there: bool,
        kind: Kind,
        pending: bool = False,
        gathered: bool = False,
        remained: bool = False,
    ) -> Backward:
        """Of one chunk; it is looked up among those of other ranks once."""
        frees, remains = self.chunks[chunk].frees, self.chunks[chunk].remains > 0
        key = (chunk, there, kind, pending, gathered and frees, remained and remains)
        if key not in self._backwards:
            self._backwards[key] = _backward(self.chunks[chunk], *key[1:])
        return self._backwards[key]

    def moment(self, step: Step) -> Moment:
        """The most of the micro batch that runs, and of what is done to the gradients of the chunk's weights."""
        gathered = step.chunk in step.gathered
        if step.kind == "forward":
            chunk = self.chunks[step.chunk]
            return _forward(chunk, gathered=gathered and chunk.frees).most
        if step.kind == "reduce":
            return self.chunks[step.chunk].reduction
        converted = self.chunks[step.chunk].pending > 0
        pending = step.chunk in step.pending
        if step.kind == "weight":
            return self.backward(step.chunk, not converted and step.chunk in step.trained, "weight", pending).most
        there = step.chunk in step.trained or (pending and not converted)
        remained = step.chunk in _remaining(step)
        return self.backward(step.chunk, there, step.kind, pending and converted, gathered, remained).most

    def bytes(self, step: Step) -> int:
        """All that lives; thousands of steps differ in nothing but the number of micro batches that are kept."""
        key = step.alone
        if key not in self._alone:
            self._alone[key] = self.moment(step).bytes + sum(self.around(step).values())
        kept = sum(number * size for number, size in zip(step.kept, self._kept, strict=True))
        left = sum(number * self._left(chunk) for chunk, number in enumerate(step.halved) if number)
        return self._alone[key] + kept + left

    def _left(self, chunk: int) -> int:
        return sum(self.backward(chunk, True, "input").left.values())

    def others(self, step: Step) -> Parts:
        """What other micro batches keep."""
        parts: Parts = {}
        for chunk, number in enumerate(step.kept):
            parts = plus(parts, times(self.forwards[chunk].kept, number))
        for chunk, number in enumerate(step.halved):
            if number:
                parts = plus(parts, times(self.backward(chunk, True, "input").left, number))
        return parts

    def around(self, step: Step) -> Parts:
        """What belongs to no micro batch."""
        sizes = self.schedule.forward_beside if step.kind == "forward" else self.schedule.backward_beside
        beside = sizes[self.stage] if sizes and step.trained else 0
        received = self.schedule.received[self.stage] if self.schedule.received else 0
        given = sum(number * self.chunks[chunk].given for chunk, number in enumerate(step.given))
        named = self._named(step) + self._remains(step)
        parts = {INPUT: self.schedule.buffers + received + beside + given + named, WORKSPACE: self._workspace()}
        blocks = [unit.block for chunk in self.chunks for unit in chunk.units]
        parts[SHARDS] = max((block.reduced_early for block in blocks), default=0)
        for index, chunk in enumerate(self.chunks):
            parts = plus(parts, _weights(chunk, index, step))
        return parts

    def _named(self, step: Step) -> int:
        """What other micro batches sent and received and the library still refers to, beside what is told by rank.

        The gradient that was sent last, which is told, may be that of an input that is named."""
        if not self.schedule.names_last:
            return 0
        ahead, named = self.schedule.receives_ahead, self._last(step)
        named += [step.first] if ahead and step.first is not None else []
        passing = 0 if step.sent is None else self.chunks[step.sent].sent
        passing += self.chunks[step.coming].received if ahead and step.coming is not None else 0
        twice = self.chunks[step.returned].received if step.returned is not None and step.returned in named else 0
        return passing + sum(2 * self.chunks[index].received for index in named) - twice

    def _last(self, step: Step) -> list[int]:
        """Chunks, but for the step's, whose last micro batches have run backward."""
        return [index for index in step.trained if index != step.chunk and not step.kept[index]]

    def _remains(self, step: Step) -> int:
        """Of what was recomputed in other passes; what a chunk received last is told already."""
        told = self._last(step) if self.schedule.names_last else ()
        return sum(
            max(0, chunk.remains - (chunk.received if index in told else 0))
            for index, chunk in enumerate(self.chunks)
            if chunk.remains and index in _remaining(step) and (index != step.chunk or step.kind == "forward")
        )

    def _workspace(self) -> int:
        return max((unit.block.workspace for chunk in self.chunks for unit in chunk.units), default=0)


def _remaining(step: Step) -> frozenset[int]:
    """Chunks that ran backward last."""
    return step.trained & (step.gathered | step.reduced)


def _weights(chunk: Chunk, index: int, step: Step) -> Parts:
    """Gradients of a chunk's weights, and the weights themselves where they are gathered once for all micro batches,
    but for what the pass itself tells."""
    own = index == step.chunk
    if index in step.reduced:
        return chunk.shards
    if own and step.kind == "reduce" and chunk.sums:
        return {}
    pending, converted = index in step.pending, chunk.pending > 0
    there = index in step.trained or (pending and not converted)
    moves = own and step.kind in ("input", "backward")
    freed = chunk.frees and (index not in step.gathered or moves or (own and step.kind == "forward"))
    waits = {WEIGHT_GRADIENTS: chunk.pending if pending and not moves else 0, GATHERED: 0 if freed else chunk.gathered}
    sent = chunk.early if step.kind == "forward" and step.kept[index] else 0
    return plus(chunk.accumulated if there else plus({WEIGHT_GRADIENTS: sent}, {}), waits)


def _chunk(shape: ModelShape, stage: int, index: int) -> Chunk:
    runs: tuple[Run, ...] = shape.stages[stage][index]
    boundary, piped = shape.schedule.boundary, len(shape.stages) > 1 or len(shape.stages[stage]) > 1
    first, last = stage == 0 and index == 0, (stage, index) == _last(shape)
    fully = shape.sharding.scheme == "fully_sharded"
    turns = shape.schedule.name in _FOLDED and stage == len(shape.stages) - 1
    keeps = "" if first or (turns and index == 1) else shape.schedule.keeps_given
    return Chunk(
        units=units_of(shape, runs),
        received=0 if first else boundary,
        sent=0 if last else boundary,
        keeps_sent=shape.schedule.keeps_sent and not last and not (turns and index == 0),
        holds_gradient=shape.schedule.holds_gradient,
        holds_received=keeps == "weights",
        given=boundary if keeps == "step" else 0,
        buffered=bool(shape.schedule.received),
        whole=shape.recomputing != "needed",
        holds_output=shape.recomputing == "whole",
        gathers=fully and not piped,
        reduces=fully and not piped,
        gathers_ahead=shape.sharding.gathers_ahead,
        frees=fully and piped and shape.sharding.reshard_after_forward,
        fully=fully,
    )


def _last(shape: ModelShape) -> tuple[int, int]:
    """Pipeline rank and chunk that compute the loss."""
    rank = 0 if shape.schedule.name in _FOLDED else len(shape.stages) - 1
    return rank, len(shape.stages[rank]) - 1
