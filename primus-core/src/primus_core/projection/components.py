"""Weights of a rank by component of the model: attention, experts, norms and so on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from primus_core.projection.fullysharded import shard_of
from primus_core.projection.memory import Parts, plus, times
from primus_core.projection.places import held, local, size_of
from primus_core.shape import Block, ModelShape, Parameter

OTHER = "other"
"""Of weights that no operator tells."""


def weights_by_component(shape: ModelShape) -> tuple[Parts, ...]:
    """By pipeline stage, bytes of the weights that live on its rank; together as many as `Static.weights` has."""
    components = _components(shape.blocks.values())
    sizes = {name: _of_block(block, shape, components) for name, block in shape.blocks.items()}
    return tuple(_of_stage(shape, stage, sizes) for stage in range(len(shape.stages)))


def _of_stage(shape: ModelShape, stage: int, sizes: Mapping[str, Parts]) -> Parts:
    parts: Parts = {}
    for run in held(shape, stage):
        parts = plus(parts, times(sizes[run.block], run.count))
    return parts


def _of_block(block: Block, shape: ModelShape, components: Mapping[str, str]) -> Parts:
    parts: Parts = {}
    for one in block.parameters:
        component = components.get(one.name) or components.get(_module(one.name), OTHER)
        parts[component] = parts.get(component, 0) + _bytes(one, shape)
    return parts


def _components(blocks: Iterable[Block]) -> dict[str, str]:
    """By weight, and by the module that it is in, the component of the operator that makes its gradient."""
    found: dict[str, str] = {}
    for operator in (operator for block in blocks for operator in block.operators):
        for name in operator.weights:
            found.setdefault(_module(name), operator.component)
            found[name] = operator.component
    return found


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _bytes(parameter: Parameter, shape: ModelShape) -> int:
    if shape.sharding.scheme != "fully_sharded":
        return size_of(local(parameter, shape), parameter.dtype)
    kept = shape.sharding.main or parameter.dtype
    return 0 if parameter.shared else size_of(shard_of(parameter, shape).own, kept)
