"""What a layer of multi-token prediction computes and keeps, beside the last stage's output layer."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from primus_backend_megatron.host.shape.operators_linear import column
from primus_backend_megatron.host.shape.operators_norm import norm
from primus_backend_megatron.host.shape.operators_work import INT64, Work
from primus_core.shape import Activation, Operator

_LAYER = "transformer_layer."


def prediction(work: Work, layer: Sequence[Operator], head: Sequence[Operator]) -> list[Operator]:
    """Its projection of two hidden states to one, a transformer layer, and the output layer with the loss again.

    What it was given goes on to the next block as it is.
    """
    passed = Activation(name="passed", bytes=0, gradient=work.stream())
    return [
        *_joined(work),
        *_renamed(layer, _LAYER, {"input": "predicted"}),
        *_renamed(head, "shared_head.", {"input": f"{_LAYER}output"}, ("output_layer.weight",)),
        Operator(name="pass", component="prediction", reads=("input",), passes=("input",), makes=(passed,)),
    ]


def told_apart(work: Work, layer: Sequence[Operator], head: Sequence[Operator]) -> list[Operator]:
    """The FLOPs alone, where it is on another stage than the output layer."""
    every = prediction(work, layer, head)
    return [evolve(_computed(each), component="prediction") for each in every if each.flops]


def _computed(operator: Operator) -> Operator:
    return evolve(
        operator, reads=(), makes=(), keeps=(), holds=(), passes=(), weights=(), scratch=0, backward_scratch=0
    )


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
            backward_scratch=work.vocabulary * work.hidden * work.element,
        ),
        *norm(work, "enorm", "next", ("enorm.weight", *(("enorm.bias",) if bias else ()))),
        *norm(work, "hnorm", "input", ("hnorm.weight", *(("hnorm.bias",) if bias else ()))),
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
