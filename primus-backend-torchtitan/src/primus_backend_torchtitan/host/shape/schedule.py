"""Micro batches, and the order in which the stages work on them."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_torchtitan.host.case import CONTEXT, PIPELINE, TENSOR, Case
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


def schedule_of_step(case: Case, groups: Groups, chunks: int) -> Schedule:
    """Micro batches of one pass through the pipeline, or of a step without one; passes of a step follow each other.

    What stages send each other is followed as `torch.distributed.pipelining` does it (torch 2.13, `stage.py`): a stage
    keeps its output until it has run backward, and has a buffer for what each micro batch receives, both ways, from
    the first step on. Where gradients of weights come later, those of its inputs stay to the end of the step.

    Args:
        chunks: stages of a pipeline rank.
    """
    if groups["pipeline"] == 1:
        batch, local = case.size("training.global_batch_size", -1), local_batch(case) * case.replicas
        return Schedule(name="none", micro_batches=max(1, batch // local) if batch > 0 else 1)
    found = schedule_of(case.values["parallelism.pipeline_parallel_schedule"])
    count, boundary = max(1, local_batch(case) // micro_batch(case)), _boundary(case, groups)
    last = 0 if found and found.folded else groups["pipeline"] - 1
    name = _NAMES[found.name] if found else "1f1b"
    ends = [2 * chunks - (rank == 0) - (rank == last) for rank in range(groups["pipeline"])]
    sent = tuple(boundary * (rank > 0) for rank in range(groups["pipeline"])) if name == "1f1b" else ()
    return Schedule(
        name=name,
        micro_batches=count,
        boundary=boundary,
        keeps_sent=True,
        received=tuple(count * boundary * number for number in ends),
        buffers=count * _mask(case),
        forward_beside=sent,
        backward_beside=sent,
        keeps_given="weights" if case.size(TENSOR) > 1 else "step",
    )


def _mask(case: Case) -> int:
    """Of a micro batch, which has its own through the whole step; on a GPU it is told by blocks alone."""
    length = case.shape.sequence
    return micro_batch(case) * length * length // case.size(CONTEXT) if case.accelerator == "cpu" else 0


def _boundary(case: Case, groups: Groups) -> int:
    """Of the residual stream of a micro batch on one rank; sequence parallel ranks send their part."""
    parts = groups["context"]
    if case.values["parallelism.enable_sequence_parallel"]:
        parts *= case.size(TENSOR)
    features = micro_batch(case) * case.shape.sequence * case.shape.hidden
    return features // parts * DTYPE_BYTES[DTYPES[case.values["training.mixed_precision_param"]]]
