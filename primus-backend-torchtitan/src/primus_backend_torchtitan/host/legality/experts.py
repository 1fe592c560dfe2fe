"""Experts over the ranks that share them."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.host.case import CONTEXT, EXPERT, PIPELINE, TENSOR, Case
from primus_core.outcome import Finding
from primus_core.planning.nearest import nearest_divisors, nearest_sizes

_EXPERTS, _CHOSEN = "model.num_experts", "model.moe_router_topk"
_REPLICATE = "parallelism.data_parallel_replicate_degree"
_SEQUENCE_PARALLEL = "parallelism.enable_sequence_parallel"


def check_experts(case: Case) -> Iterator[Finding]:
    """How many there are, how many a token goes to, and who holds them."""
    experts, ranks, chosen = case.shape.experts, case.size(EXPERT), case.shape.experts_per_token
    if not experts:
        if ranks > 1:
            remedy = f"set {case.name(EXPERT)}: 1, or {case.name(_EXPERTS)}"
            yield case.error("experts", "expert parallelism without experts", (_EXPERTS, EXPERT), remedy)
        return
    if chosen > experts:
        yield case.error(
            "experts",
            f"a token cannot go to {chosen} of {experts} experts",
            (_CHOSEN, _EXPERTS),
            f"set {case.name(_CHOSEN)} to {experts} or less",
        )
    if experts % ranks:
        yield case.error(
            "experts",
            f"{experts} experts cannot be divided among {ranks} expert parallel ranks",
            (_EXPERTS, EXPERT),
            f"set {case.name(EXPERT)} to {nearest_divisors(experts, ranks)}",
        )
    else:
        yield from _ranks(case, ranks, experts)
    yield from _tokens(case)


def _ranks(case: Case, ranks: int, experts: int) -> Iterator[Finding]:
    """They are taken from those that otherwise share tensors, sequences and shards of one stage and one copy."""
    holders = case.world_size // (case.size(PIPELINE) * case.size(_REPLICATE))
    if holders % ranks == 0:
        return
    sizes = nearest_sizes(ranks, holders, lambda size: holders % size == 0 and experts % size == 0)
    yield case.error(
        "expert-ranks",
        f"the {holders} ranks that hold one stage of one copy cannot be divided into groups of {ranks} that share "
        "experts",
        (EXPERT, PIPELINE, _REPLICATE, TENSOR, CONTEXT),
        f"set {case.name(EXPERT)} to {sizes}",
    )


def _tokens(case: Case) -> Iterator[Finding]:
    """Tensor parallel ranks send the tokens of their part of the sequence to experts of other ranks; TorchTitan 0.3
    cannot make sums of what comes back, as it would have to where every rank keeps the whole sequence."""
    if case.size(EXPERT) == 1 or case.size(TENSOR) == 1 or case.values[_SEQUENCE_PARALLEL]:
        return
    yield case.error(
        "expert-sequence",
        "TorchTitan divides experts beside tensors only where the sequence is divided among the same ranks",
        (_SEQUENCE_PARALLEL, TENSOR, EXPERT),
        f"set {case.name(_SEQUENCE_PARALLEL)}: true, {case.name(EXPERT)}: 1, or {case.name(TENSOR)}: 1",
    )
