"""Experts over the ranks that hold shards of them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from primus_backend_torchtitan.host.case import CONTEXT, EXPERT, PIPELINE, TENSOR, Case
from primus_backend_torchtitan.host.shards import COPIES, cuts_features, expert_shards_of
from primus_core.outcome import Finding
from primus_core.planning.nearest import nearest_sizes


def check_shards(case: Case) -> Iterator[Finding]:
    """FSDP cuts features of experts, where experts are fewer than shards, into equal parts only."""
    if not case.shape.experts or not case.replicas or _fits(case, case.size(COPIES)):
        return
    ranks, features = expert_shards_of(case), _features(case)
    sizes = nearest_sizes(case.size(COPIES), case.replicas, lambda copies: _fits(case, copies))
    fewer = f"set {case.name(COPIES)} to {sizes}, or " if sizes else ""
    yield case.error(
        "expert-shards",
        f"{case.shape.experts} experts are fewer than the ranks that share them, and {ranks} ranks cannot divide "
        f"{features} features of each equally",
        ("model.num_experts", COPIES, EXPERT, TENSOR, CONTEXT, PIPELINE),
        f"{fewer}start a number of ranks of which a divisor of {features} shares an expert",
    )


def _fits(case: Case, copies: int) -> bool:
    """Whether so many copies of the model can be made, whose shards are equal; what divides no ranks is told apart."""
    if case.replicas % copies:
        return copies == case.size(COPIES)
    return not cuts_features(case, copies) or _features(case) % expert_shards_of(case, copies) == 0


def _features(case: Case) -> int:
    """What must be divided: outputs of the first matrices, on each rank, and of the last one."""
    inner = case.shape.moe_ffn_hidden
    if case.size(EXPERT) == 1:
        inner = -(-inner // case.size(TENSOR))
    return math.gcd(inner, case.shape.hidden)
