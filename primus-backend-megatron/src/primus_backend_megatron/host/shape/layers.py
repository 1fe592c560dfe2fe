"""Which layers there are, and on which stage of the pipeline each of them is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.legality.layout import chunks_in
from primus_core.parameters.layerpattern import layers_with_experts

EMBEDDING, LAYER, EXPERTS, PREDICTION, HEAD = "embedding", "layer", "expert_layer", "prediction", "head"
NORM = "final_norm"
"""By itself, where it is on another stage than the output layer."""

_LETTERS = {"E": EMBEDDING, "t": LAYER, "m": PREDICTION, "L": HEAD}
_WORDS = {"embedding": EMBEDDING, "decoder": LAYER, "mtp": PREDICTION, "loss": HEAD}


def kinds_of(case: Case) -> tuple[str, ...]:
    """The kind of each layer, in their order."""
    layers = case.shape.layers
    if not case.shape.experts:
        return (LAYER,) * layers
    return tuple(EXPERTS if one else LAYER for one in layers_with_experts(case.values["moe_layer_freq"], layers))


def chunks_of(case: Case) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """By pipeline rank and by chunk of it, the kinds of its blocks in their order."""
    stages = case.size("pipeline_model_parallel_size")
    planned = _by_layout(case) or _by_number(case, stages)
    kinds = iter((*kinds_of(case),))
    filled = [tuple(next(kinds, LAYER) if kind == LAYER else kind for kind in chunk) for chunk in planned]
    placed = _with_norm(filled) if case.on("mtp_num_layers") else filled
    return tuple(tuple(placed[stage::stages]) for stage in range(stages))


def _with_norm(chunks: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """With multi-token prediction the final norm is beside the last layer; a block of its own without the loss."""
    last = max(at for at, chunk in enumerate(chunks) if _has_layers(chunk))
    if HEAD in chunks[last]:
        return list(chunks)
    layers = tuple(kind for kind in chunks[last] if kind != PREDICTION)
    return [*chunks[:last], (*layers, NORM, *chunks[last][len(layers) :]), *chunks[last + 1 :]]


def predicts_with_loss(case: Case) -> bool:
    """Layers of multi-token prediction are on the stage that computes the loss."""
    return PREDICTION in chunks_of(case)[-1][-1]


def norms_with_loss(case: Case) -> bool:
    """The final norm is on the chunk that computes the loss."""
    return not case.on("mtp_num_layers") or _has_layers(chunks_of(case)[-1][-1])


def _has_layers(chunk: Sequence[str]) -> bool:
    return not {LAYER, EXPERTS}.isdisjoint(chunk)


def _by_layout(case: Case) -> list[list[str]]:
    """Chunks in the order of the layers, where the experiment lists them; empty where it does not."""
    layout = case.values["pipeline_model_parallel_layout"]
    if isinstance(layout, list):
        return [[_WORDS.get(str(word), LAYER) for word in chunk] for chunk in layout if isinstance(chunk, list)]
    if not isinstance(layout, str):
        return []
    return [[_LETTERS[letter] for letter in chunk if letter in _LETTERS] for chunk in chunks_in(layout)]


def _by_number(case: Case, stages: int) -> list[list[str]]:
    """Equal chunks, but for the first and last stage where they have a number of their own.

    Where the embedding or the loss counts as a layer, the stage that has it has a layer less.
    """
    counts = _per_stage(case, stages)
    chunks = chunks_per_rank(case, counts[0])
    found = [[LAYER] * (counts[stage] // chunks) for _ in range(chunks) for stage in range(stages)]
    if case.on("account_for_embedding_in_pipeline_split"):
        found[0] = found[0][1:]
    if case.on("account_for_loss_in_pipeline_split"):
        found[-1] = found[-1][1:]
    found[0] = [EMBEDDING, *found[0]]
    found[-1] += [PREDICTION] * case.size("mtp_num_layers", 0) + [HEAD]
    return found


def _per_stage(case: Case, stages: int) -> list[int]:
    first, last = case.values["decoder_first_pipeline_num_layers"], case.values["decoder_last_pipeline_num_layers"]
    ends = [size for size in (first, last) if isinstance(size, int)]
    counted = case.on("account_for_embedding_in_pipeline_split") + case.on("account_for_loss_in_pipeline_split")
    between = max(1, stages - len(ends))
    counts = [(case.shape.layers - sum(ends) + counted) // between] * stages
    if isinstance(first, int):
        counts[0] = first
    if isinstance(last, int):
        counts[-1] = last
    return counts


def chunks_per_rank(case: Case, layers: int) -> int:
    """Chunks of each pipeline rank, that are called virtual stages."""
    if case.size("pipeline_model_parallel_size") == 1:
        return 1
    per_chunk = case.values["num_layers_per_virtual_pipeline_stage"]
    if isinstance(per_chunk, int) and per_chunk:
        return max(1, layers // per_chunk)
    return case.size("num_virtual_stages_per_pipeline_rank")


def joined(kinds: Iterable[str]) -> list[tuple[str, int]]:
    """Kinds that follow each other, counted."""
    return [(kind, len(list(same))) for kind, same in groupby(kinds)]
