"""What comes and goes on a rank while its optimizer works, beside all that lives through a step.

Sources: `torch.optim.adam` and `torch.optim.sgd` of torch 2.13, and `_copy_model_grads_to_main_grads` of the optimizers
of megatron-core 0.19. Gradients are clipped in their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from primus_core.projection import fullysharded, states
from primus_core.projection.iteration import WORKSPACE, Peak, given
from primus_core.projection.memory import INPUT, WEIGHT_GRADIENTS
from primus_core.projection.places import FIRST, Place, held
from primus_core.projection.reducing import reduced_again
from primus_core.projection.static import Static
from primus_core.shape import DTYPE_BYTES, Block, ModelShape, Run

OPTIMIZER = "the optimizer's step"


def peak(shape: ModelShape, stage: int, static: Static, workspace: int, place: Place = FIRST) -> Peak:
    """The most at once, while the optimizer of a rank of a pipeline stage works.

    Args:
        static: of the same rank.
        workspace: bytes that the forward and backward passes have left allocated.
    """
    left = sum(sizes[stage] for sizes in (shape.schedule.remains, shape.schedule.received) if sizes)
    left += sum(_remaining(shape.blocks[run.block], run) for run in held(shape, stage))
    left += given(shape, stage)
    twice = reduced_again(shape, stage, place)
    working = _working(shape, stage, static, place)
    parts = {OPTIMIZER: working, INPUT: left, WEIGHT_GRADIENTS: twice, WORKSPACE: workspace}
    parts = {name: size for name, size in parts.items() if size}
    return Peak(bytes=sum(parts.values()), at=OPTIMIZER, parts=parts)


def _remaining(block: Block, run: Run) -> int:
    if run.recompute:
        return block.remains * -(-run.count // run.recompute)
    return block.remains * run.count if block.recomputed else 0


def _working(shape: ModelShape, stage: int, static: Static, place: Place) -> int:
    """Copies of all gradients, and what arithmetic needs between two results; those of shards are gone once they are
    copied."""
    sharding = shape.sharding
    copies = static.main if sharding.copies_gradients else 0
    if sharding.optimizer == "fused" or not sharding.moments:
        return copies
    most = max((_elements(shape, shares) for shares in _shares(shape, stage, place)), default=0)
    return copies + max(0, most * DTYPE_BYTES[sharding.moments[-1]] - (static.gradients if sharding.copy else 0))


def _elements(shape: ModelShape, shares: tuple[int, ...]) -> int:
    """Adam's root of its second moment, of all tensors or of one after the other: the root, and the root divided,
    beside that of the tensor before, which is dropped after. SGD adds decaying weights to a gradient instead."""
    if shape.sharding.optimizer == "foreach":
        return sum(shares)
    if len(shape.sharding.moments) == 1:
        return max(shares, default=0)
    return max((before + 2 * elements for before, elements in pairwise((0, *shares))), default=0)


def _shares(shape: ModelShape, stage: int, place: Place) -> Iterator[tuple[int, ...]]:
    if shape.sharding.scheme == "fully_sharded":
        return fullysharded.shares(shape, stage, place)
    return states.shares(shape, stage, place)
