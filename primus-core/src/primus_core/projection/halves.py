"""The gradients of weights alone, once those of activations are there.

`torch.distributed.pipelining` (torch 2.13, ``stage_backward_weight``) asks for them operation by operation, in the
order of the weights. What the operations so far alone kept is freed, all else at the end. Each is a backward pass of
its own, so that what is recomputed runs again for each (`torch.utils.checkpoint`), and stays until the operations that
keep it have had their turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from attrs import evolve

from primus_core.projection.backward import run_backward
from primus_core.projection.chunk import Backward, Chunk, Forward, Most
from primus_core.projection.keeping import gone, released
from primus_core.projection.memory import GRADIENTS, WEIGHT_GRADIENTS, Moment, minus, plus, times
from primus_core.projection.setting import Pass, Setting
from primus_core.projection.tape import rerun
from primus_core.projection.units import Unit
from primus_core.shape import Block, Operator


def run_weights(chunk: Chunk, ran: Forward, *, pending: bool = False) -> Backward:
    """Computes the gradients of all weights of a chunk that has run backward for its activations.

    Args:
        pending: there are such gradients already, to which these are added.
    """
    peak, live = Most(), run_backward(chunk, ran, trained=True, halved=True).left
    made, before = 0, 0
    for unit, source in zip(chunk.units, ran.sources, strict=True):
        order, had = list(_order(unit)), frozenset[int]()
        setting = Setting(source=source, whole=chunk.whole, holds_output=chunk.holds_output)
        whole = _again(unit.block, unit.name, setting, had)
        for turn, index in enumerate(order):
            operator, beside = unit.block.operators[index], {WEIGHT_GRADIENTS: made + before}
            again = _again(unit.block, unit.name, setting, had)
            peak.see(whole.most, live, times(again.left, turn), beside)
            own = sum(size for name, size in unit.weights if name in operator.weights)
            at = Moment(at=f"{unit.name}: {operator.name}, weights")
            peak.see(at, live, times(again.left, turn + 1), beside, {WEIGHT_GRADIENTS: own})
            over = had | {index} | (gone(unit.block, set(order[turn + 1 :])) if unit is chunk.units[-1] else set())
            live = minus(live, plus(released(unit.block, over, had), {GRADIENTS: _gradients(operator)}))
            made, before, had = (made, own, over) if pending else (made + own, 0, over)
        live = plus(live, times(_again(unit.block, unit.name, setting, had).left, len(order)))
    return Backward(most=peak.most)


def _order(unit: Unit) -> Iterator[int]:
    """Positions of the operators that read the block's weights, each once."""
    reader = _readers(unit.block)
    yield from dict.fromkeys(reader[name] for name, _ in unit.weights if name in reader)


def turns(block: Block) -> frozenset[int]:
    """Positions of the operators whose weights' gradients are asked for, each in a backward pass of its own."""
    return frozenset(_readers(block).values())


def _readers(block: Block) -> dict[str, int]:
    return {weight: index for index, op in enumerate(block.operators) for weight in op.weights}


@lru_cache(maxsize=256)
def _again(block: Block, name: str, setting: Setting, had: frozenset[int]) -> Pass:
    """What runs again. Of what only operators keep that have had their turn, nothing stays afterwards."""
    operators = tuple(evolve(op, keeps=()) if index in had else op for index, op in enumerate(block.operators))
    return rerun(evolve(block, operators=operators), name, setting)


def _gradients(operator: Operator) -> int:
    if operator.waits is not None:
        return operator.waits
    return sum(made.bytes if made.gradient is None else made.gradient for made in operator.makes)
