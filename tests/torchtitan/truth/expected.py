"""What projection says of one rank, in the words in which the truth is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from primus_core.projection.fullysharded import gathering_of, shard_of, static_of
from primus_core.projection.places import Place, held, size_of
from primus_core.shape import ModelShape, Parameter
from tests.torchtitan.truth.places import place_of, stage_of

STEP = "layer"


def rank_of(shape: ModelShape, rank: int) -> dict[str, Any]:
    """Every figure that `tests.torchtitan.truth.building.measured` may have."""
    stage, place = stage_of(shape, rank), place_of(shape, rank)
    static = static_of(shape, stage, place)
    every = [parameter for parameter, count in _parameters(shape, stage) for _ in range(count)]
    gathering = gathering_of(every, shape, place)
    own = [one for one in every if not one.shared]
    weights = sum(_stored(one, shape, place) for one in own)
    return {
        "parameters": dict(Counter(f"{one.name}/{'x'.join(map(str, shard_of(one, shape, place).own))}" for one in own)),
        "order": _order(shape, stage),
        "weights": weights,
        "gradients": static.weights + static.gradients + static.padding - weights,
        "moments": static.moments,
        "buffers": static.buffers,
        "gathered": gathering.weights,
        "reduced": gathering.gradients,
    }


def _stored(parameter: Parameter, shape: ModelShape, place: Place) -> int:
    """Bytes of a shard with its padding."""
    return size_of(shard_of(parameter, shape, place).stored, shape.sharding.main or parameter.dtype)


def _parameters(shape: ModelShape, stage: int) -> Iterator[tuple[Parameter, int]]:
    for run in held(shape, stage):
        for parameter in shape.blocks[run.block].parameters:
            yield parameter, run.count


def _order(shape: ModelShape, stage: int) -> list[str]:
    """Names of the parameters of the first layer of a stage."""
    layers = [run.block for run in held(shape, stage) if STEP in run.block]
    return [parameter.name for parameter in shape.blocks[layers[0]].parameters] if layers else []
