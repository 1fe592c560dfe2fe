"""How many nodes an experiment is meant for, as far as its layout tells."""

from __future__ import annotations

import math
from collections.abc import Mapping

from primus_core.experiment import Leaf
from primus_core.plan import Layout
from primus_core.planning.portable import typed_params

_MOST_NODES = 4096
_SIZES = (
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
    "micro_batch_size",
    "global_batch_size",
)


def nodes_for(layout: Layout, ranks_per_node: int) -> int:
    """The smallest number of nodes whose ranks hold whole replicas and whose replicas divide the batch.

    Where no number divides the batch, the smallest that holds the replicas.
    """
    replica, experts = layout.ranks_per_replica, layout.pipeline * layout.expert * layout.expert_tensor
    if min(replica, experts, layout.data, layout.micro_batch_size, ranks_per_node) < 1:
        return 1  # for the checks of the layout to tell
    ranks = math.lcm(replica * layout.data, experts, ranks_per_node)
    fewest = ranks // ranks_per_node
    for nodes in range(fewest, max(_MOST_NODES, fewest) + 1, fewest):
        if _divides_batch(layout, nodes * ranks_per_node):
            return nodes
    return fewest


def layout_asked(params: Mapping[str, Leaf]) -> Layout:
    """The layout as far as portable names tell it, before any translation; a back end may know better."""
    params = typed_params({name: params[name] for name in _SIZES if name in params})
    tensor = _whole(params, "tensor_model_parallel_size", 1)
    batch = params.get("global_batch_size")
    return Layout(
        tensor=tensor,
        pipeline=_whole(params, "pipeline_model_parallel_size", 1),
        context=_whole(params, "context_parallel_size", 1),
        expert=_whole(params, "expert_model_parallel_size", 1),
        expert_tensor=_whole(params, "expert_tensor_parallel_size", tensor),
        micro_batch_size=_whole(params, "micro_batch_size", 1),
        global_batch_size=_whole(params, "global_batch_size", 1) if batch and batch.value is not None else None,
    )


def _whole(params: Mapping[str, Leaf], key: str, default: int) -> int:
    value = params[key].value if key in params else default
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _divides_batch(layout: Layout, world: int) -> bool:
    step = layout.micro_batch_size * layout.data_parallel(world)
    return layout.global_batch_size is None or layout.global_batch_size % step == 0
