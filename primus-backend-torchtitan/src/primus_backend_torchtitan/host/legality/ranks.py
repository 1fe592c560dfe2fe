"""Ranks over copies and shards of the model, and samples over the copies."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.host.case import CONTEXT, PIPELINE, TENSOR, Case
from primus_core.outcome import Finding
from primus_core.planning.nearest import nearest_divisors, nearest_multiples

_REPLICATE = "parallelism.data_parallel_replicate_degree"
_SHARD = "parallelism.data_parallel_shard_degree"
_GLOBAL, _LOCAL, _MICRO = (
    "training.global_batch_size",
    "training.local_batch_size",
    "parallelism.pipeline_parallel_microbatch_size",
)


def check_ranks(case: Case) -> Iterator[Finding]:
    """The two data parallel degrees, and the local batch; what a rank holds of the model is core's check."""
    if case.world_size % max(1, case.world_size // max(1, case.replicas)) or not case.replicas:
        return
    shard = case.size(_SHARD)
    if shard != -1 and shard < 1:
        remedy = "set it to -1 for all ranks that are left, or to 1 or more"
        yield case.error("shards", f"{case.name(_SHARD)} is {shard}", (_SHARD,), remedy)
    elif shard == -1:
        yield from _left(case)
    else:
        yield from _product(case, shard)
    yield from _batches(case)


def _left(case: Case) -> Iterator[Finding]:
    """Shards for the ranks that are left, of which there must be as many in every copy."""
    copies, replicas = case.size(_REPLICATE), case.replicas
    if replicas % copies:
        yield case.error(
            "data-parallel",
            f"{replicas} data parallel ranks cannot be divided into {copies} copies of the model",
            (_REPLICATE, _SHARD, TENSOR, PIPELINE, CONTEXT),
            f"set {case.name(_REPLICATE)} to {nearest_divisors(replicas, copies)}",
        )


def _product(case: Case, shard: int) -> Iterator[Finding]:
    copies, replicas = case.size(_REPLICATE), case.replicas
    if copies * shard == replicas:
        return
    ranks = case.world_size // replicas * copies * shard
    fitting = f"set {case.name(_SHARD)} to {replicas // copies} or -1" if replicas % copies == 0 else "change both"
    yield case.error(
        "data-parallel",
        f"{copies} copies of {shard} shards are {copies * shard} data parallel ranks, and there are {replicas}",
        (_REPLICATE, _SHARD, TENSOR, PIPELINE, CONTEXT),
        f"{fitting}, or start {ranks} ranks",
    )


def _batches(case: Case) -> Iterator[Finding]:
    batch, local = case.size(_GLOBAL), case.size(_LOCAL)
    if batch == 0:
        remedy = "set it to 1 or more, or leave it out: one local batch of every replica"
        yield case.error("batch", f"{case.name(_GLOBAL)} is 0", (_GLOBAL,), remedy)
    if case.size(PIPELINE) == 1:
        return
    if local % case.size(_MICRO):
        yield case.error(
            "batch",
            f"a local batch of {local} samples cannot be divided into micro batches of {case.size(_MICRO)}",
            (_LOCAL, _MICRO),
            f"set {case.name(_MICRO)} to {nearest_divisors(local, case.size(_MICRO))}",
        )
    elif batch > 0 and _LOCAL in case.paths and batch % (local * case.replicas):
        step = local * case.replicas
        yield case.error(
            "batch",
            f"{case.name(_GLOBAL)} {batch} is no multiple of local batch x data parallel = {local} x {case.replicas}",
            (_GLOBAL, _LOCAL),
            f"set {case.name(_GLOBAL)} to {nearest_multiples(batch, step)}",
        )
