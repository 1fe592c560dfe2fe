"""What a layer of multi-token prediction computes and keeps, beside the last stage's output layer."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from primus_backend_megatron.host.shape.operators_linear import column
from primus_backend_megatron.host.shape.operators_norm import norm
from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.operators import INT64
from primus_core.shape import Activation, Operator, Recomputed

_LAYER, _HEAD = "transformer_layer.", "shared_head."


def prediction(
    work: Work, final: Sequence[Operator], layer: Sequence[Operator], head: Sequence[Operator]
) -> list[Operator]:
    """Its projection of two hidden states to one, a transformer layer, and the output layer with the loss again.

    It begins with the model's own `final` norm, whose output goes on to the next block.
    """
    passed = Activation(name="passed", bytes=0, gradient=work.stream())
    return [
        *(evolve(each, weights=()) for each in final),
        *_joined(work),
        *_renamed(layer, _LAYER, {"input": "predicted"}),
        *_waiting(work, _renamed(head, _HEAD, {"input": f"{_LAYER}output"}, ("output_layer.weight",))),
        Operator(
            name="pass",
            component="prediction",
            reads=("final_layernorm",),
            passes=("final_layernorm",),
            keeps=("final_layernorm",),
            makes=(passed,),
        ),
    ]


def told_apart(work: Work, layer: Sequence[Operator], head: Sequence[Operator]) -> list[Operator]:
    """The FLOPs alone, where it is on another stage than the output layer."""
    every = prediction(work, (), layer, head)
    return [evolve(_computed(each), component="prediction") for each in every if each.flops]


def _computed(operator: Operator) -> Operator:
    return evolve(
        operator, reads=(), makes=(), keeps=(), holds=(), passes=(), weights=(), scratch=0, backward_scratch=0
    )


def waiting_gradient(work: Work) -> int:
    """Bytes of the gradient of the embedding's weight, which waits for that of the model's own embedding of tokens."""
    return 0 if work.case.size("pipeline_model_parallel_size") > 1 else _vocabulary_gradient(work)


def _vocabulary_gradient(work: Work) -> int:
    return work.vocabulary * work.hidden * work.element


def _waiting(work: Work, head: list[Operator]) -> list[Operator]:
    """Of the output layer's weight the gradient by the model's own logits waits for that by these."""
    size = _vocabulary_gradient(work)
    more = {f"{_HEAD}loss": size, f"{_HEAD}output_layer": 2 * size}
    return [evolve(each, backward_scratch=each.backward_scratch + more.get(each.name, 0)) for each in head]


def recomputed(operators: Sequence[Operator]) -> tuple[Recomputed, ...]:
    """With full recomputation it runs again from both hidden states to its own normed output."""
    norms = [each.name for each in operators if each.name.startswith("enorm")]
    return (Recomputed(first=norms[0], last=f"{_HEAD}final_layernorm"),) if norms else ()


def _joined(work: Work) -> list[Operator]:
    """Embeddings of the next tokens and hidden states, normed, side by side, projected to one width."""
    size = work.stream()
    tokens = Activation(name="tokens", bytes=2 * work.tokens * INT64, gradient=0)
    bias = work.norm == "LayerNorm"
    return [
        Operator(
            name="word_embeddings",
            component="prediction",
            makes=(tokens, Activation(name="next", bytes=size)),
            keeps=("tokens",),
            scratch=work.tokens * work.hidden * work.element,
            backward_scratch=_vocabulary_gradient(work),
        ),
        *norm(work, "enorm", "next", ("enorm.weight", *(("enorm.bias",) if bias else ()))),
        *norm(work, "hnorm", "final_layernorm", ("hnorm.weight", *(("hnorm.bias",) if bias else ()))),
        Operator(
            name="join",
            component="prediction",
            reads=("enorm", "hnorm"),
            makes=(Activation(name="joined", bytes=2 * size),),
        ),
        *_projected(work),
    ]


def _projected(work: Work) -> list[Operator]:
    """Each rank makes its share of the features, which are then gathered; with sequence parallelism the rank's tokens
    are a view of all."""
    width = work.hidden // work.tensor
    alone = work.tensor == 1
    made = "predicted" if alone else "share"
    (product,) = column(work, "eh_proj", "joined", made, width, inner=2 * work.hidden, component="prediction")
    product = evolve(product, backward_scratch=2 * product.backward_scratch)
    if alone:
        return [product]
    gathered = work.tokens * work.hidden * work.element
    gather = Operator(
        name="gather",
        component="prediction",
        reads=("share",),
        makes=(Activation(name="predicted", bytes=gathered, gradient=work.stream()),),
        backward_scratch=gathered if work.sequence_parallel else 0,
    )
    return [product, gather]


def _renamed(
    operators: Sequence[Operator], prefix: str, known: dict[str, str], foreign: tuple[str, ...] = ()
) -> list[Operator]:
    """The same on other activations; weights that another block has are left to it."""

    def name(old: str) -> str:
        return known.get(old, prefix + old)

    def names(old: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(name, old))

    return [
        evolve(
            each,
            name=prefix + each.name,
            reads=names(each.reads),
            makes=tuple(evolve(made, name=name(made.name)) for made in each.makes),
            keeps=names(each.keeps),
            holds=names(each.holds),
            passes=names(each.passes),
            weights=tuple(one.removeprefix("decoder.") for one in each.weights if one not in foreign),
        )
        for each in operators
    ]
