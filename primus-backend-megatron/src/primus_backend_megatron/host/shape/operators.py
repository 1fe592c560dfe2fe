"""What each part of a model does on one rank, one operator after the other, as Megatron would run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import evolve

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape.layers import (
    EMBEDDING,
    EXPERTS,
    HEAD,
    LAYER,
    PREDICTION,
    kinds_of,
    predicts_with_loss,
)
from primus_backend_megatron.host.shape.operators_attention import attention
from primus_backend_megatron.host.shape.operators_experts import mixture
from primus_backend_megatron.host.shape.operators_head import embedding, final_norm, head, scores
from primus_backend_megatron.host.shape.operators_latent import latent_attention
from primus_backend_megatron.host.shape.operators_mlp import mlp
from primus_backend_megatron.host.shape.operators_prediction import prediction, prefix_of, recomputed, told_apart
from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.shape import Operator, Recomputed, Run


def operators_of(case: Case, kind: str) -> tuple[Operator, ...]:
    """The operators of a block, by its kind."""
    work = Work.of(case)
    return tuple(_OPERATORS[kind](work))


def _attention(work: Work) -> list[Operator]:
    return latent_attention(work) if work.case.on("multi_latent_attention") else attention(work)


def _layer(work: Work) -> list[Operator]:
    return [*_attention(work), *mlp(work)]


def _expert_layer(work: Work) -> list[Operator]:
    return [*_attention(work), *mixture(work)]


def _prediction(work: Work) -> list[Operator]:
    layer = _expert_layer(work) if kinds_of(work.case)[-1] == EXPERTS else _layer(work)
    told = prediction if predicts_with_loss(work.case) else told_apart
    return told(work, final_norm(work), layer, scores(work, "input"))


def _head(work: Work) -> list[Operator]:
    predicted = work.case.on("mtp_num_layers") and predicts_with_loss(work.case)
    return scores(work, "input") if predicted else head(work)


def recomputed_of(case: Case, kind: str) -> tuple[Recomputed, ...]:
    """The parts of a block that run again, where not the whole block does."""
    if kind == PREDICTION:
        return _recomputed_predictions(case)
    return _selected(case, kind) if kind in (LAYER, EXPERTS) else ()


def _recomputed_predictions(case: Case) -> tuple[Recomputed, ...]:
    """Of multi-token prediction: with full recomputation all or, by ``block``, nothing; the selected parts of each
    layer."""
    depths = case.size("mtp_num_layers")
    if case.values["recompute_granularity"] == "full":
        uniform = case.values["recompute_method"] == "uniform"
        return recomputed(operators_of(case, PREDICTION), depths) if uniform else ()
    if not predicts_with_loss(case):
        return ()
    return tuple(
        evolve(part, first=prefix_of(depth) + part.first, last=prefix_of(depth) + part.last)
        for depth in range(depths)
        for part in _selected(case, kinds_of(case)[-1])
    )


def _selected(case: Case, kind: str) -> tuple[Recomputed, ...]:
    """The parts of a layer that selective recomputation runs again."""
    if case.values["recompute_granularity"] != "selective":
        return ()
    modules = case.values["recompute_modules"]
    asked = modules if isinstance(modules, list) else ["core_attn"]
    parts = _EXPERT_PARTS if kind == EXPERTS else _PARTS
    found = [part for module in asked for part in parts.get(str(module), ())]
    order = [operator.name for operator in operators_of(case, kind)]
    usable = [part for part in found if part.first in order and part.last in order]
    return tuple(sorted(usable, key=lambda part: order.index(part.first)))


def runs_of(case: Case, kind: str, count: int, done: int = 0) -> tuple[Run, ...]:
    """A chunk's layers of one kind, with those marked that run again in the backward pass.

    ``uniform`` recomputes all in groups of ``recompute_num_layers``, ``block`` so many of the first ones, each alone.

    Args:
        done: layers of the chunk that come before these.
    """
    if case.values["recompute_granularity"] != "full":
        return (Run(block=kind, count=count),) if count else ()
    number = case.size("recompute_num_layers")
    if case.values["recompute_method"] == "uniform":
        return (Run(block=kind, count=count, recompute=number),) if count else ()
    first = max(0, min(number - done, count))
    runs = (Run(block=kind, count=first, recompute=1), Run(block=kind, count=count - first))
    return tuple(run for run in runs if run.count)


_NORMS = (
    Recomputed(first="input_layernorm.cast", last="input_layernorm", keeps_output=False),
    Recomputed(first="pre_mlp_layernorm.cast", last="pre_mlp_layernorm", keeps_output=False),
)
_WHOLE_NORMS = (
    Recomputed(first="input_layernorm", last="input_layernorm", keeps_output=False),
    Recomputed(first="pre_mlp_layernorm", last="pre_mlp_layernorm", keeps_output=False),
)
_CORE = (Recomputed(first="core_attention", last="core_attention"),)
_PARTS = {
    "core_attn": _CORE,
    "layernorm": _NORMS + _WHOLE_NORMS,
    "mlp": (Recomputed(first="mlp.linear_fc1", last="mlp.linear_fc2"),),
}
_EXPERT_PARTS = {
    "core_attn": _CORE,
    "layernorm": _NORMS + _WHOLE_NORMS,
    "moe": (Recomputed(first="mlp.router", last="mlp.unpermute"),),
    "moe_act": (
        Recomputed(first="experts.act", last="experts.weigh", keeps_output=False),
        Recomputed(first="experts.activation", last="experts.activation", keeps_output=False),
    ),
    "shared_experts": (Recomputed(first="mlp.shared_experts.linear_fc1", last="mlp.shared_experts.linear_fc2"),),
}

_OPERATORS: Mapping[str, Callable[[Work], Sequence[Operator]]] = {
    EMBEDDING: embedding,
    LAYER: _layer,
    EXPERTS: _expert_layer,
    PREDICTION: _prediction,
    HEAD: _head,
}
