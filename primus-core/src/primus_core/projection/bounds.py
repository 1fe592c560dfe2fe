"""The least that a model needs on so many ranks, however they divide it: arithmetic on its size, without a plan."""

from __future__ import annotations

from math import prod

from primus_core.projection.places import held
from primus_core.records import frozen
from primus_core.shape import DTYPE_BYTES, ModelShape, Parameter


@frozen(kw_only=True)
class Sizes:
    """How a model and its batch are divided: numbers of ranks, and of sequences."""

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 1
    micro_batch_size: int = 1
    global_batch_size: int | None = None
    """None: as many as the ranks take at once."""

    @property
    def replica(self) -> int:
        """Ranks that together see the same sequences."""
        return self.tensor * self.pipeline * self.context

    def at_once(self, ranks: int) -> int:
        """Sequences that all ranks take at once."""
        return self.micro_batch_size * (ranks // self.replica)


@frozen(kw_only=True)
class Least:
    """Bytes of a whole model, each tensor once: weights, gradients and the optimizer's state."""

    dense: int = 0
    """Weights and gradients, which each replica has."""
    experts: int = 0
    """The same of experts."""
    shared: int = 0
    """What all ranks may share."""

    def on(self, ranks: int, sizes: Sizes | None = None) -> int:
        """Bytes on the heaviest rank at least: an equal share of all, where nothing is held twice without need.

        Args:
            sizes: None: whatever division needs least.
        """
        if sizes is None:
            return (self.dense + self.experts + self.shared) // ranks
        dense = self.dense // (sizes.tensor * sizes.pipeline)
        experts = self.experts // (sizes.expert * sizes.expert_tensor * sizes.pipeline)
        return dense + experts + self.shared // ranks


def least_of(shape: ModelShape) -> Least:
    """Of a model in any layout."""
    dense = experts = shared = 0
    fully = shape.sharding.scheme == "fully_sharded"
    for stage in range(len(shape.stages)):
        for run in held(shape, stage):
            for one in shape.blocks[run.block].parameters:
                elements = 0 if one.shared else prod(one.shape) * shape.group(one.spread) * run.count
                own, state = _bytes(one, shape)
                shared += elements * (own + state if fully else state)
                experts += elements * own if _expert(one) and not fully else 0
                dense += elements * own if not _expert(one) and not fully else 0
    return Least(dense=dense, experts=experts, shared=shared)


def _expert(parameter: Parameter) -> bool:
    return parameter.expert or parameter.spread is not None


def _bytes(parameter: Parameter, shape: ModelShape) -> tuple[int, int]:
    """Of an element: of weight and gradient, and of the optimizer's state; one moment where that is told by itself."""
    sharding = shape.sharding
    counted = sharding.moments if parameter.state is None else sharding.moments[:1]
    moments = sum(DTYPE_BYTES[moment] for moment in counted)
    if sharding.scheme == "fully_sharded":
        copy = DTYPE_BYTES[sharding.copy] if sharding.copy else 0
        return 2 * DTYPE_BYTES[sharding.main or parameter.dtype], copy + moments
    main = 0 if sharding.main in (None, parameter.dtype) else DTYPE_BYTES[sharding.main or parameter.dtype]
    return DTYPE_BYTES[parameter.dtype] + DTYPE_BYTES[sharding.gradient], main + moments
