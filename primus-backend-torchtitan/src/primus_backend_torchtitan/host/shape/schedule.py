"""Micro batches, and the order in which the stages work on them."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_torchtitan.host.case import PIPELINE, TENSOR, Case
from primus_backend_torchtitan.host.schedules import schedule_of
from primus_backend_torchtitan.host.shape.groups import Groups
from primus_backend_torchtitan.host.shape.tensors import DTYPES
from primus_core.shape import DTYPE_BYTES, Schedule, ScheduleName

_NAMES: Mapping[str, ScheduleName] = {
    "1F1B": "1f1b",
    "GPipe": "gpipe",
    "Interleaved1F1B": "interleaved_1f1b",
    "InterleavedZeroBubble": "zero_bubble",
    "LoopedBFS": "looped_bfs",
    "ZBVZeroBubble": "zbv",
    "DualPipeV": "dualpipev",
}


def local_batch(case: Case) -> int:
    """Samples of one replica before its gradients are reduced."""
    return case.size("training.local_batch_size")


def micro_batch(case: Case) -> int:
    """Samples that pass through the model together."""
    piped = case.size(PIPELINE) > 1
    return case.size("parallelism.pipeline_parallel_microbatch_size") if piped else local_batch(case)


def schedule_of_step(case: Case, groups: Groups) -> Schedule:
    """Micro batches of one pass through the pipeline, or of a step without one; passes of a step follow each other."""
    if groups["pipeline"] == 1:
        batch, local = case.size("training.global_batch_size", -1), local_batch(case) * case.replicas
        return Schedule(name="none", micro_batches=max(1, batch // local) if batch > 0 else 1)
    found = schedule_of(case.values["parallelism.pipeline_parallel_schedule"])
    return Schedule(
        name=_NAMES[found.name] if found else "1f1b",
        micro_batches=max(1, local_batch(case) // micro_batch(case)),
        boundary=_boundary(case, groups),
    )


def _boundary(case: Case, groups: Groups) -> int:
    """Of the residual stream of a micro batch on one rank; sequence parallel ranks send their part."""
    parts = groups["context"]
    if case.values["parallelism.enable_sequence_parallel"]:
        parts *= case.size(TENSOR)
    features = micro_batch(case) * case.shape.sequence * case.shape.hidden
    return features // parts * DTYPE_BYTES[DTYPES[case.values["training.mixed_precision_param"]]]
