"""Layers over the stages of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.legality.layout import LAYOUT, chunks_in
from primus_core.outcome import Finding
from primus_core.planning.nearest import nearest_divisors, nearest_multiples, nearest_sizes

_PIPELINE = "pipeline_model_parallel_size"
_FIRST, _LAST = "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers"
_COUNTED = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")
_GROUP = "microbatch_group_size_per_vp_stage"
_PER_CHUNK, _CHUNKS = "num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank"


def check_pipeline(case: Case) -> Iterator[Finding]:
    """Stages of equal size, but for a first and last one that are given, and virtual stages within them."""
    ways = [name for name in (_PER_CHUNK, _CHUNKS, LAYOUT) if case.values[name] is not None]
    if len(ways) > 1:
        yield case.error("virtual-stages", f"{' and '.join(ways)} are both set", ways, f"keep {ways[0]} alone")
    elif isinstance(layout := case.values[LAYOUT], str):
        yield from _interleaved(case, len(chunks_in(layout)) // case.size(_PIPELINE), LAYOUT)
    else:
        yield from _stages(case)


def _stages(case: Case) -> Iterator[Finding]:
    ends = [name for name in (_FIRST, _LAST) if case.values[name] is not None]
    counted = [name for name in _COUNTED if case.on(name)]
    keys = ("num_layers", _PIPELINE, *ends, *counted)
    if ends and counted:
        yield case.error(
            "layers",
            f"{' and '.join(ends)} fix what {' and '.join(counted)} would count",
            keys,
            f"keep {ends[0]} alone",
        )
        return
    stages = case.size(_PIPELINE) - len(ends)
    layers = case.shape.layers - sum(case.size(name) for name in ends) + len(counted)
    if stages < 0 or layers < stages or (layers % stages if stages else layers):
        yield case.error("layers", _uneven(layers, stages, ends), keys, _remedy(layers, stages, ends))
    else:
        yield from _virtual(case, layers // stages if stages else case.size(_FIRST), ends, keys)


def _uneven(layers: int, stages: int, ends: list[str]) -> str:
    what = f"the {layers} layers between the ends" if ends else f"{layers} layers"
    return f"{what} cannot be divided among {stages} pipeline stages"


def _remedy(layers: int, stages: int, ends: list[str]) -> str:
    if ends:
        return f"change {' or '.join(ends)} so that a multiple of {stages} layers is left"
    return f"set {_PIPELINE} to {nearest_divisors(layers, stages)}, or {_FIRST} for stages of unequal size"


def _virtual(case: Case, per_stage: int, ends: list[str], keys: tuple[str, ...]) -> Iterator[Finding]:
    """A stage's layers are divided among its chunks."""
    name = _PER_CHUNK if case.values[_PER_CHUNK] is not None else _CHUNKS
    size = case.size(name)
    if name == _PER_CHUNK and case.values[name] is not None and ends:
        keys = (_PER_CHUNK, *ends)
        yield case.error("virtual-stages", f"{name} is for stages of equal size", keys, f"set {_CHUNKS} instead")
        return
    for layers in dict.fromkeys((per_stage, *(case.size(end) for end in ends))):
        if layers % size:
            yield case.error(
                "virtual-stages",
                f"{layers} layers of a pipeline stage cannot be divided by {name} = {size}",
                (*keys, name),
                f"set {name} to {nearest_divisors(layers, size)}",
            )
            return
    chunks = per_stage // size if name == _PER_CHUNK and case.values[name] is not None else size
    yield from _interleaved(case, chunks, name)


def _interleaved(case: Case, chunks: int, name: str) -> Iterator[Finding]:
    """Chunks of the interleaved schedule; Megatron needs more stages where it may not overlap communication."""
    least = 2 if case.on("overlap_p2p_comm") else 3
    if chunks > 1 and case.size(_PIPELINE) < least:
        yield case.error(
            "virtual-stages",
            f"virtual pipeline stages need {least} or more pipeline stages",
            (_PIPELINE, name, "overlap_p2p_comm"),
            f"set {_PIPELINE} to {nearest_multiples(least, least)} or more, or remove {name}",
        )
    elif chunks > 1:
        yield from _micro_batches(case, name)


def _micro_batches(case: Case, name: str) -> Iterator[Finding]:
    """The interleaved schedule takes micro batches in groups, each at least as many as there are stages."""
    stages, step = case.size(_PIPELINE), case.samples_at_once
    batch, group = case.size("global_batch_size", step), case.size(_GROUP, stages)
    if group < stages:
        why = f"{group} micro batches at a time are fewer than {stages} pipeline stages"
        yield case.error("virtual-stages", why, (_GROUP, _PIPELINE, name), f"set {_GROUP} to {stages} or more")
        return

    def fits(size: int) -> bool:
        count = size // step
        return size % step == 0 and count >= group and (count % group == 0 or count % group >= stages)

    if batch % step == 0 and not fits(batch):
        yield case.error(
            "virtual-stages",
            f"virtual pipeline stages take micro batches in groups of {group}, and a step has {batch // step}",
            ("global_batch_size", "micro_batch_size", _PIPELINE, name),
            f"set global_batch_size to {nearest_sizes(batch, batch + group * step, fits)}",
        )
