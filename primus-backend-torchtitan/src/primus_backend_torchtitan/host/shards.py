"""How many ranks hold shards of a weight, and which dimension of an expert they cut."""

from __future__ import annotations

from primus_backend_torchtitan.host.case import CONTEXT, EXPERT, TENSOR, Case

COPIES = "parallelism.data_parallel_replicate_degree"


def shards_of(case: Case, copies: int | None = None) -> int:
    """Ranks that a weight is cut for: those of one copy of the model, context parallel ones among them.

    Args:
        copies: in place of what the case says.
    """
    return max(1, case.replicas // (copies or case.size(COPIES))) * case.size(CONTEXT)


def expert_shards_of(case: Case, copies: int | None = None) -> int:
    """Ranks that an expert is cut for: with expert parallelism those that hold the same experts."""
    if case.size(EXPERT) == 1:
        return shards_of(case, copies)
    return max(1, shards_of(case, copies) * case.size(TENSOR) // case.size(EXPERT))


def cuts_features(case: Case, copies: int | None = None) -> bool:
    """Whether features of experts are cut, since experts are fewer than the ranks that TorchTitan compares them with.

    Without expert parallelism it counts all ranks of its mesh: copies too, and with the newer back ends of DTensor
    also those that divide tensors.
    """
    if case.size(EXPERT) > 1:
        return expert_shards_of(case, copies) * case.size(EXPERT) > case.shape.experts
    divided = 1 if case.values["parallelism.spmd_backend"] == "partial_dtensor" else case.size(TENSOR)
    return shards_of(case, copies) * (copies or case.size(COPIES)) * divided > case.shape.experts
