"""What projection says of one rank, in the words in which the truth is measured."""

from __future__ import annotations

from collections import Counter
from typing import Any

from primus_core.projection.places import held, local
from primus_core.projection.states import per_rank
from primus_core.shape import DTYPE_BYTES, ModelShape
from tests.megatron.truth.places import place_of, stage_of


def rank_of(shape: ModelShape, rank: int) -> dict[str, Any]:
    """Every figure that `tests.megatron.truth.building.measured` may have."""
    stage, place = stage_of(shape, rank), place_of(shape, rank)
    static = per_rank(shape, stage, place)
    weight, gradient = _padding(shape, static.padding)
    found: Counter[str] = Counter()
    for run in held(shape, stage):
        for one in shape.blocks[run.block].parameters:
            found[f"{one.name}/{'x'.join(map(str, local(one, shape, place)))}"] += run.count
    return {
        "parameters": dict(found),
        "weights": static.weights + weight,
        "gradients": static.gradients + gradient,
        "buffers": static.buffers,
        "main": static.main,
        "moments": static.moments,
    }


def _padding(shape: ModelShape, padding: int) -> tuple[int, int]:
    """What of it is among weights, and among gradients: all weights have one format."""
    dtypes = {one.dtype for block in shape.blocks.values() for one in block.parameters}
    assert len(dtypes) == 1
    weight, gradient = DTYPE_BYTES[dtypes.pop()], DTYPE_BYTES[shape.sharding.gradient]
    return padding * weight // (weight + gradient), padding * gradient // (weight + gradient)
