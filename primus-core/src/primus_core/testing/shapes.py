"""What is wrong with the shape of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from primus_core.shape import Block, ModelShape, Operator, Parameter


def shape_problems(shape: ModelShape) -> Iterator[str]:
    """A sentence for each thing that cannot be."""
    ranks = shape.group("pipeline")
    if len(shape.stages) != ranks:
        yield f"{len(shape.stages)} stages on {ranks} pipeline ranks"
    for group, size in shape.groups.items():
        if size < 1:
            yield f"{size} ranks in the group {group}"
    yield from _runs(shape)
    for name, block in shape.blocks.items():
        yield from (f"block {name}: {problem}" for problem in _block(block))
    counts = {"micro batches": shape.schedule.micro_batches, "tokens": shape.tokens, "samples": shape.samples}
    yield from (f"{count} {what}" for what, count in counts.items() if count < 1)


def _runs(shape: ModelShape) -> Iterator[str]:
    for run in (run for stage in shape.stages for chunk in stage for run in chunk):
        if run.block not in shape.blocks:
            yield f"there is no block {run.block}"
        if run.count < 1:
            yield f"{run.count} blocks of {run.block} in a row"


def _block(block: Block) -> Iterator[str]:
    tensors = (*block.parameters, *block.buffers)
    yield from _twice("tensors", (tensor.name for tensor in tensors))
    for tensor in tensors:
        yield from (f"{tensor.name}: {problem}" for problem in _tensor(tensor))
    yield from _twice("operators", (operator.name for operator in block.operators))
    made = {"input"}
    for operator in block.operators:
        yield from (f"{operator.name}: {problem}" for problem in _operator(operator, made))
        made |= {activation.name for activation in operator.makes}


def _tensor(tensor: Parameter) -> Iterator[str]:
    if min(tensor.shape, default=0) < 1:
        yield f"sizes {tensor.shape}"
    if len(tensor.axes) > len(tensor.shape):
        yield "more groups divide it than it has dimensions"
    if not 0 <= tensor.shard_dimension < len(tensor.shape):
        yield f"it has no dimension {tensor.shard_dimension}"


def _operator(operator: Operator, made: set[str]) -> Iterator[str]:
    unknown = sorted({*operator.reads} - made)
    if unknown:
        yield f"it reads {', '.join(unknown)}, which none before makes"
    lost = sorted({*operator.keeps} - made - {activation.name for activation in operator.makes})
    if lost:
        yield f"it keeps {', '.join(lost)}, which none makes"
    sizes = [operator.scratch, operator.backward_scratch, operator.flops, *(made.bytes for made in operator.makes)]
    if min(sizes) < 0:
        yield "a size is negative"
    if operator.hardware_flops is not None and operator.hardware_flops < operator.flops:
        yield "less runs than the model needs"


def _twice(what: str, names: Iterable[str]) -> Iterator[str]:
    every = list(names)
    again = sorted({name for name in every if every.count(name) > 1})
    if again:
        yield f"{what} have one name: {', '.join(again)}"
