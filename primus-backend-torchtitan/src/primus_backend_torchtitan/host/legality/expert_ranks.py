"""Experts over ranks that otherwise share tensors, sequences and shards."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.host.case import CONTEXT, EXPERT, PIPELINE, TENSOR, Case
from primus_core.outcome import Finding
from primus_core.planning.nearest import nearest_sizes

_REPLICATE = "parallelism.data_parallel_replicate_degree"


def check_expert_ranks(case: Case) -> Iterator[Finding]:
    """Whole groups of expert parallel ranks among those of one stage and one copy."""
    holders, ranks = case.world_size // (case.size(PIPELINE) * case.size(_REPLICATE)), case.size(EXPERT)
    experts = case.shape.experts
    if not experts or holders % ranks == 0:
        return
    sizes = nearest_sizes(ranks, holders, lambda size: holders % size == 0 and experts % size == 0)
    yield case.error(
        "expert-ranks",
        f"the {holders} ranks that hold one stage of one copy cannot be divided into groups of {ranks} that share "
        "experts",
        (EXPERT, PIPELINE, _REPLICATE, TENSOR, CONTEXT),
        f"set {case.name(EXPERT)} to {sizes}",
    )
