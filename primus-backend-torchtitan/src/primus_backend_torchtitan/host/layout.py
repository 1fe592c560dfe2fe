"""How ranks are divided."""

from __future__ import annotations

import math

from primus_backend_torchtitan.host.draft import Draft


def replicas(draft: Draft) -> int:
    """Groups of ranks that each hold one copy of the model and read samples of their own."""
    names = ("tensor_parallel_degree", "pipeline_parallel_degree", "context_parallel_degree")
    copies = math.prod(draft.integer(f"parallelism.{name}") for name in names)
    return max(1, draft.target.world_size // copies)
