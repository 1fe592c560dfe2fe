"""Where each rank of TorchTitan stands in its groups."""

from __future__ import annotations

from primus_core.projection.places import Place
from primus_core.shape import ModelShape
from tests.truth.layouts import stages_of


def stage_of(shape: ModelShape, rank: int) -> int:
    """The pipeline rank."""
    return rank // _of_stage(shape)


def place_of(shape: ModelShape, rank: int) -> Place:
    """Where a rank stands: copies before shards before tensor parallel ranks, which TorchTitan counts fastest."""
    tensor, shards = shape.group("tensor"), shape.group("shard")
    copy, inside = divmod(rank % _of_stage(shape), shards * tensor)
    expert = shape.group("expert")
    holders = max(1, shape.group("expert_data") // shape.group("replicate"))
    return Place(
        at={
            "tensor": inside % tensor,
            "shard": inside // tensor,
            "replicate": copy,
            "expert": inside % expert,
            "expert_data": copy * holders + inside // expert,
        }
    )


def ranks_of(shape: ModelShape) -> list[int]:
    """Those to look at: all of a small world; of a large one, the first, the last and some between, of each stage."""
    size = _of_stage(shape)
    world = size * shape.group("pipeline")
    if world <= 4:
        return list(range(world))
    inside = {0, size // 2, size - 1}
    return [stage * size + position for stage in stages_of(shape) for position in sorted(inside) if position >= 0]


def _of_stage(shape: ModelShape) -> int:
    """Ranks of a stage."""
    return shape.group("data") * shape.group("tensor")
