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
    NORM,
    PREDICTION,
    kinds_of,
    norms_with_loss,
    predicts_with_loss,
)
from primus_backend_megatron.host.shape.operators_attention import attention
from primus_backend_megatron.host.shape.operators_experts import mixture
from primus_backend_megatron.host.shape.operators_head import embedding, final_norm, head, scores
from primus_backend_megatron.host.shape.operators_latent import latent_attention
from primus_backend_megatron.host.shape.operators_mlp import mlp
from primus_backend_megatron.host.shape.operators_prediction import prediction, prefix_of, recomputed, told_apart
from primus_backend_megatron.host.shape.operators_unfused import modules
from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.shape import Operator, Recomputed, Run

Ways = tuple[Recomputed, ...]
"""Of telling one part that is recomputed: the first whose operators there are is meant."""


def operators_of(case: Case, kind: str) -> tuple[Operator, ...]:
    """The operators of a block, by its kind."""
    work = Work.of(case)
    return tuple(_OPERATORS[kind](work))


def _attention(work: Work) -> list[Operator]:
    return latent_attention(work) if work.case.on("multi_latent_attention") else attention(work)


def _layer(work: Work) -> list[Operator]:
    return _to_its_end([*_attention(work), *mlp(work)])


def _expert_layer(work: Work) -> list[Operator]:
    return _to_its_end([*_attention(work), *mixture(work)])


def _to_its_end(operators: list[Operator]) -> list[Operator]:
    """The library still refers to a layer's input until the layer has run."""
    return [*operators[:-1], evolve(operators[-1], holds=(*operators[-1].holds, "input"))]


def _prediction(work: Work) -> list[Operator]:
    layer = _expert_layer(work) if kinds_of(work.case)[-1] == EXPERTS else _layer(work)
    told = prediction if predicts_with_loss(work.case) else told_apart
    return told(work, final_norm(work), layer, scores(work, "input"))


def _head(work: Work) -> list[Operator]:
    predicted = work.case.on("mtp_num_layers") and predicts_with_loss(work.case)
    return scores(work, "input") if predicted or not norms_with_loss(work.case) else head(work)


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
        _prefixed(part, prefix_of(depth)) for depth in range(depths) for part in _selected(case, kinds_of(case)[-1])
    )


def _prefixed(part: Recomputed, prefix: str) -> Recomputed:
    before = prefix + part.before if part.before else ""
    return evolve(part, first=prefix + part.first, last=prefix + part.last, before=before)


def _selected(case: Case, kind: str) -> tuple[Recomputed, ...]:
    """The parts of a layer that selective recomputation runs again; one may be inside another."""
    if case.values["recompute_granularity"] != "selective":
        return ()
    parts = _EXPERT_PARTS if kind == EXPERTS else _PARTS
    order = [operator.name for operator in operators_of(case, kind)]
    wanted = (each for module in modules(case) for each in parts.get(module, ()))
    found = {(part.first, part.last): part for part in (_first(each, order) for each in wanted) if part}
    return tuple(sorted(found.values(), key=lambda part: order.index(part.first)))


def _first(told: Sequence[Recomputed], order: Sequence[str]) -> Recomputed | None:
    """Of several ways to tell a part, the first whose operators there are."""
    return next((part for part in told if {part.first, part.last, part.before or part.last} <= set(order)), None)


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


def _dropped(first: str, last: str, *before: str) -> Ways:
    """Without its output, which comes back before the backward of the first of these operators that there is."""
    return tuple(Recomputed(first=first, last=last, keeps_output=False, before=one) for one in before)


def _norm(name: str, *before: str) -> Ways:
    return (*_dropped(f"{name}.cast", name, *before), *_dropped(name, name, *before))


def _always(*ends: str) -> dict[str, tuple[Ways, ...]]:
    """The parts of every layer, whose feed-forward part has one of these last operators."""
    attended = ("core_attention.copy", "core_attention")
    queries = (f"self_attention.{name}" for name in ("linear_q_up_proj", "linear_q_proj"))
    return {
        "core_attn": (
            (
                *_part("core_attention.repeat", "core_attention.copy"),
                *_part("core_attention", "core_attention.copy"),
                *_part("core_attention", "core_attention"),
            ),
        ),
        "layernorm": (_norm("input_layernorm", "self_attention.linear_proj"), _norm("pre_mlp_layernorm", *ends)),
        "mla_up_proj": (tuple(part for first in queries for part in _dropped(first, "value", *attended)),),
    }


def _part(first: str, last: str) -> Ways:
    return (Recomputed(first=first, last=last),)


_SHARED, _ROUTED, _FIRST_SHARED = "mlp.shared_experts.add", "mlp.unpermute", "mlp.shared_experts.linear_fc1"
_PARTS = {
    **_always("mlp.linear_fc2"),
    "mlp": (_part("mlp.linear_fc1", "mlp.linear_fc2"),),
}
_EXPERT_PARTS = {
    **_always(_SHARED, _ROUTED),
    "moe": ((*_part(_FIRST_SHARED, _SHARED), *_part("mlp.router", _ROUTED)),),
    "moe_act": (
        (
            *_dropped("experts.act", "experts.weigh", "mlp.experts.linear_fc2"),
            *_dropped("experts.activation", "experts.activation", "mlp.experts.linear_fc2"),
        ),
    ),
    "shared_experts": (
        (*_part(_FIRST_SHARED, "mlp.shared_experts.gate"), *_part(_FIRST_SHARED, "mlp.shared_experts.linear_fc2")),
    ),
}

_OPERATORS: Mapping[str, Callable[[Work], Sequence[Operator]]] = {
    EMBEDDING: embedding,
    LAYER: _layer,
    EXPERTS: _expert_layer,
    PREDICTION: _prediction,
    HEAD: _head,
    NORM: final_norm,
}
