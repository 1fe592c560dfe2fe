"""The blocks of one pipeline stage's chunk, each with the bytes of its weights and of what is gathered around it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from primus_core.projection.fullysharded import gathering_of, shard_of, shard_ranks
from primus_core.projection.places import local, size_of
from primus_core.records import frozen
from primus_core.shape import Block, ModelShape, Parameter, Run


@frozen(kw_only=True)
class Gathered:
    """Bytes that a fully sharded block needs beside its shards."""

    weights: int = 0
    """Whole, while it works."""
    flat: int = 0
    """The buffer that they arrive in: it stays until the next block's have arrived, in the backward pass until they
    are copied."""
    arriving: int = 0
    """The most beside `flat` while they arrive: a rank's part, converted for sending, or all that is copied."""
    stays: bool = False
    """The weights are not freed between forward and backward."""
    reducing: int = 0
    """The buffer that gradients are sent from, which stays until the next block's are sent."""
    reduced: int = 0
    """The buffer that the rank's part arrives in."""
    dividing: int = 0
    """A copy of the buffer: of what is on one rank alone torch divides the gradients, by one."""
    shard: int = 0
    """The rank's part, as it is kept."""
    converts: bool = False
    """That part has another format than the buffer."""


@frozen(kw_only=True)
class Unit:
    """A block by its position in the chunk."""

    name: str
    block: Block
    weights: tuple[tuple[str, int], ...] = ()
    """Bytes of the gradient of each, in the format of the forward pass."""
    accumulated: int = 0
    """Of all these gradients in the format in which they are reduced."""
    gathered: Gathered = Gathered()
    group: int | None = None
    """Blocks of one number run again together."""


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
            accumulated=unit.accumulated,
            gathered=unit.gathered,
            group=number,
        )


def _unit(shape: ModelShape, name: str) -> Unit:
    block = shape.blocks[name]
    sizes = [(parameter.name, local(parameter, shape), parameter.dtype) for parameter in block.parameters]
    fully = shape.sharding.scheme == "fully_sharded"
    return Unit(
        name=name,
        block=block,
        weights=tuple((name, size_of(size, dtype)) for name, size, dtype in sizes),
        accumulated=sum(size_of(size, shape.sharding.gradient) for _, size, _ in sizes),
        gathered=_gathered(shape, block) if fully else Gathered(),
    )


def _gathered(shape: ModelShape, block: Block) -> Gathered:
    parameters, sharding = block.parameters, shape.sharding
    together = (*parameters, *block.beside)
    whole, own = gathering_of(together, shape), gathering_of(parameters, shape)
    cut = gathering_of((each for each in together if shard_ranks(each, shape) > 1), shape)
    return Gathered(
        weights=whole.weights,
        flat=cut.weights,
        arriving=_arriving(shape, together),
        stays=not sharding.reshard_after_forward or not block.resharded,
        reducing=own.gradients,
        reduced=own.reduced,
        dividing=0 if cut.weights else own.gradients,
        shard=sum(size_of(shard_of(each, shape).stored, sharding.main or each.dtype) for each in parameters),
        converts=(sharding.main or sharding.gradient) != sharding.gradient,
    )


def _arriving(shape: ModelShape, parameters: tuple[Parameter, ...]) -> int:
    """All shards are converted together. What is on one rank alone is converted and copied one after the other, and
    each conversion stays until the next has been made."""
    together, gathered, before, most = 0, 0, 0, 0
    for parameter in parameters:
        found = gathering_of((parameter,), shape)
        converted = 0 if shape.sharding.main in (None, parameter.dtype) else found.sent
        if shard_ranks(parameter, shape) > 1:
            together += converted
        else:
            most = max(most, gathered + before + converted, gathered + found.weights + converted)
            before = converted
        gathered += found.weights
    return max(together, most, gathered)
