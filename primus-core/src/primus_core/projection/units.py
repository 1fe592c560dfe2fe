"""The blocks of one pipeline stage's chunk, each with the bytes of its weights and of what is gathered around it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from primus_core.projection.gathering import Gathered, gathered_of
from primus_core.projection.places import computed, size_of
from primus_core.projection.reducing import Reduced, reduced_of
from primus_core.records import frozen
from primus_core.shape import Block, ModelShape, Run


@frozen(kw_only=True)
class Unit:
    """A block by its position in the chunk."""

    name: str
    block: Block
    weights: tuple[tuple[str, int], ...] = ()
    """Bytes of the gradient of each, in the format of the forward pass."""
    gathered: Gathered = Gathered()
    reduced: tuple[Reduced, ...] = ()
    """Of fully sharded weights."""
    group: int | None = None
    """Blocks of one number run again together."""

    @property
    def accumulated(self) -> int:
        """Bytes of the gradients of fully sharded weights, in the format in which they are reduced."""
        return sum(sum(one.accumulated) for one in self.reduced)

    @property
    def pending(self) -> int:
        """The same in the format of the forward pass, where that is another one."""
        made = sum(sum(one.gradients) for one in self.reduced)
        return made if made != self.accumulated else 0


def units_of(shape: ModelShape, runs: tuple[Run, ...]) -> tuple[Unit, ...]:
    """In the order of the forward pass, without blocks of which no activation is told and nothing is gathered."""
    fully = shape.sharding.scheme == "fully_sharded"
    told = [run for run in runs if fully or any(op.reads or op.makes for op in shape.blocks[run.block].operators)]
    groups, made = count(), {run.block: _unit(shape, run.block) for run in told}
    return tuple(unit for run in told for unit in _expanded(made[run.block], run, groups))


def _expanded(unit: Unit, run: Run, groups: Iterator[int]) -> Iterator[Unit]:
    number: int | None = None
    for index in range(run.count):
        if run.recompute and index % run.recompute == 0:
            number = next(groups)
        yield Unit(
            name=unit.name,
            block=unit.block,
            weights=unit.weights,
            gathered=unit.gathered,
            reduced=unit.reduced,
            group=number,
        )


def _unit(shape: ModelShape, name: str) -> Unit:
    block = shape.blocks[name]
    read = {weight for op in block.operators for weight in op.weights} - {each.name for each in block.parameters}
    others = {each.name: each for other in shape.blocks.values() for each in other.parameters if each.name in read}
    sizes = [(each.name, computed(each, shape), each.dtype) for each in (*block.parameters, *others.values())]
    fully = shape.sharding.scheme == "fully_sharded"
    return Unit(
        name=name,
        block=block,
        weights=tuple((name, size_of(size, dtype)) for name, size, dtype in sizes),
        gathered=gathered_of(shape, block) if fully else Gathered(),
        reduced=reduced_of(shape, block) if fully else (),
    )
