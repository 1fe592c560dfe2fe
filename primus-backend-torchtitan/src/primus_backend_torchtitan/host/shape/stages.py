"""Layers over the stages of the pipeline, as TorchTitan cuts the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from primus_backend_torchtitan.architecture import layers_with_experts
from primus_backend_torchtitan.host.case import PIPELINE, Case
from primus_backend_torchtitan.host.schedules import Schedule, schedule_of
from primus_backend_torchtitan.host.shape.blocks import (
    DENSE,
    EMBEDDING,
    EXPERTS,
    HEAD,
    LAST_NORM,
    NORM,
    OUTPUT,
    PIECES,
    SENDS,
    sends_apart,
)
from primus_core.experiment import Value
from primus_core.shape import Run

_FIRST, _LAST = (f"parallelism.pipeline_parallel_{end}_stage_less_layers" for end in ("first", "last"))

Chunk = tuple[Run, ...]


def stages_of(case: Case) -> tuple[tuple[Chunk, ...], ...]:
    """By pipeline rank, by its stages in the order of the model, the blocks."""
    ranks = case.size(PIPELINE)
    kinds = [EXPERTS if experts else DENSE for experts in layers_with_experts(case.model)]
    if ranks == 1:
        return ((_runs([EMBEDDING, *kinds, *_head(case)]),),)
    chunks = [_runs(_ended(case, names)) for names in _cut(case, kinds, ranks)]
    each, folded = len(chunks) // ranks, _schedule(case).folded
    return tuple(
        tuple(chunks[index] for index in sorted(_held(rank, ranks, each, folded=folded))) for rank in range(ranks)
    )


def _ended(case: Case, names: list[str]) -> list[str]:
    """The blocks of a stage, where the last layer before another stage may be of its own kind."""
    return [*names[:-1], SENDS] if names and names[-1] == DENSE and sends_apart(case) else names


def _head(case: Case) -> list[str]:
    return [LAST_NORM, PIECES] if case.values["loss.kind"] == "chunked" else [HEAD]


def _held(rank: int, ranks: int, each: int, *, folded: bool) -> Iterable[int]:
    """The stages of a rank: round after round, or there and back."""
    if folded:
        return rank, 2 * ranks - 1 - rank
    return range(rank, ranks * each, ranks)


def _cut(case: Case, kinds: Sequence[str], ranks: int) -> list[list[str]]:
    """The names of the blocks of each stage."""
    written = case.values["parallelism.module_fqns_per_model_part"]
    if isinstance(written, list):
        return [_read(case, stage, kinds) for stage in written]
    counts = _counts(case, len(kinds), ranks)
    starts = [sum(counts[:stage]) for stage in range(len(counts))]
    parts = [list(kinds[start : start + count]) for start, count in zip(starts, counts, strict=True)]
    return [[EMBEDDING, *parts[0]], *parts[1:-1], [*parts[-1], *_head(case)]]


def _counts(case: Case, layers: int, ranks: int) -> list[int]:
    """Layers of each stage: equal shares, the first ones larger, of layers and of what the ends count for."""
    first, last, per_stage = case.size(_FIRST, 0), case.size(_LAST, 0), case.size(_PER_STAGE, 0)
    units = layers + first + last
    stages = -(-units // per_stage) if per_stage > 0 else ranks * _schedule(case).least_stages
    each, larger = divmod(units, stages)
    shares = [each + (stage < larger) for stage in range(stages)]
    shares[0] -= first
    shares[-1] -= last
    return shares


_PER_STAGE = "parallelism.pipeline_parallel_layers_per_stage"


def _schedule(case: Case) -> Schedule:
    found = schedule_of(case.values["parallelism.pipeline_parallel_schedule"])
    if found is None:
        raise ValueError("a legal plan has a schedule of torch's")
    return found


def _read(case: Case, stage: Value, kinds: Sequence[str]) -> list[str]:
    """The blocks of a stage that is written as names of modules, in the order of the model."""
    names = {str(name) for name in stage} if isinstance(stage, list) else set()
    layers = [kind for index, kind in enumerate(kinds) if f"layers.{index}" in names]
    ends = {"norm": NORM, "lm_head": OUTPUT}
    last = _head(case) if names >= set(ends) else [block for name, block in ends.items() if name in names]
    return [*([EMBEDDING] if "tok_embeddings" in names else ()), *layers, *last]


def _runs(names: Iterable[str]) -> Chunk:
    return tuple(Run(block=name, count=len(list(same))) for name, same in groupby(names))
