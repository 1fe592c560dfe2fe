"""How many nodes an experiment is meant for, as far as its layout tells."""

from __future__ import annotations

import math

from primus_core.plan import Layout

_MOST_NODES = 4096


def nodes_for(layout: Layout, ranks_per_node: int) -> int:
    """The smallest number of nodes whose ranks hold whole replicas and whose replicas divide the batch.

    Where no number divides the batch, the smallest that holds the replicas.
    """
    replica, experts = layout.ranks_per_replica, layout.pipeline * layout.expert * layout.expert_tensor
    if min(replica, experts, layout.micro_batch_size, ranks_per_node) < 1:
        return 1  # for the checks of the layout to tell
    ranks = math.lcm(replica, experts, ranks_per_node)
    fewest = ranks // ranks_per_node
    for nodes in range(fewest, max(_MOST_NODES, fewest) + 1, fewest):
        if _divides_batch(layout, nodes * ranks_per_node):
            return nodes
    return fewest


def _divides_batch(layout: Layout, world: int) -> bool:
    step = layout.micro_batch_size * layout.data_parallel(world)
    return layout.global_batch_size is None or layout.global_batch_size % step == 0
