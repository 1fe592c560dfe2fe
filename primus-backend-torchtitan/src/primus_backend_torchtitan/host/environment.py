"""Environment variables that TorchTitan relies on."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_torchtitan.host.draft import Draft


def environment_of(draft: Draft) -> Mapping[str, str]:
    """Under pipeline parallelism TorchTitan warns unless a rank with the loss is named; Primus shows that rank's."""
    stages = draft.integer("parallelism.pipeline_parallel_degree")
    if stages == 1:
        return {}
    world = draft.target.world_size
    return {"LOG_RANK": str(world // stages * (stages - 1))}
