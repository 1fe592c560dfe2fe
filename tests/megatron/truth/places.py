"""Where each rank of Megatron stands in its groups."""

from __future__ import annotations

from primus_core.projection.places import Place
from primus_core.shape import ModelShape
from tests.truth.layouts import stages_of


def stage_of(shape: ModelShape, rank: int) -> int:
    """The pipeline rank, which Megatron counts slowest."""
    return rank // _of_stage(shape)


def place_of(shape: ModelShape, rank: int) -> Place:
    """Where a rank stands: tensor parallel ranks are counted fastest, then those with the same weights."""
    inside = rank % _of_stage(shape)
    tensor, expert_tensor, expert = (shape.group(name) for name in ("tensor", "expert_tensor", "expert"))
    return Place(
        at={
            "tensor": inside % tensor,
            "data": inside // tensor,
            "expert_tensor": inside % expert_tensor,
            "expert": inside // expert_tensor % expert,
            "expert_data": inside // (expert_tensor * expert),
        }
    )


def ranks_of(shape: ModelShape) -> list[int]:
    """Those to look at: of at most five stages, the first, one between and the last."""
    size = _of_stage(shape)
    return [stage * size + position for stage in stages_of(shape) for position in sorted({0, size // 2, size - 1})]


def _of_stage(shape: ModelShape) -> int:
    return shape.group("data") * shape.group("tensor")
