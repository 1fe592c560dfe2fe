"""What a layer of multi-token prediction computes and keeps, beside the last stage's output layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import evolve

from primus_backend_megatron.host.shape.layers import norms_with_loss
from primus_backend_megatron.host.shape.operators_linear import column
from primus_backend_megatron.host.shape.operators_norm import norm
from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.operators import INT64
from primus_core.shape import Activation, Operator, Recomputed

TRANSFORMER = "transformer_layer."
_HEAD = "shared_head."


def prediction(
    work: Work, final: Sequence[Operator], layer: Sequence[Operator], scores: Sequence[Operator]
) -> list[Operator]:
    """For each further token a projection of two hidden states to one, a transformer layer and a norm; then the output
    layer with the loss again for each.

    It begins with the model's own `final` norm, where that is on this stage. All normed outputs are copied into one
    tensor, whose parts the output layers read and keep; backward their gradients are copied into one too. The model's
    own part goes on to the next block.
    """
    depths = range(work.case.size("mtp_num_layers"))
    normed = norms_with_loss(work.case)
    outputs = ["final_layernorm" if normed else "input", *(f"{depth}.final_layernorm" for depth in depths)]
    return [
        *(evolve(each, weights=()) for each in final if normed),
        *(each for depth in depths for each in _deep(work, depth, outputs[depth], final, layer)),
        *_side_by_side(work, outputs),
        *(each for depth in depths for each in _scored(work, depth, scores)),
        Operator(
            name="pass",
            component="prediction",
            reads=("main",),
            passes=("main",),
            keeps=("outputs",),
            makes=(Activation(name="passed", bytes=0, gradient=work.stream()),),
        ),
    ]


def _deep(
    work: Work, depth: int, source: str, final: Sequence[Operator], layer: Sequence[Operator]
) -> Iterator[Operator]:
    """One further token, from the hidden states of this name."""
    name = prefix_of(depth)
    yield from _renamed(_joined(work), f"{depth}.", {"final_layernorm": source})
    yield from _renamed(layer, name, {"input": f"{depth}.predicted"})
    yield from _renamed(final, f"{depth}.", {"input": f"{name}output"})


def prefix_of(depth: int) -> str:
    """Of the operators of the transformer layer for one further token."""
    return f"{depth}.{TRANSFORMER}"


def _side_by_side(work: Work, outputs: Sequence[str]) -> list[Operator]:
    """All outputs in one tensor, and its parts."""
    size = work.stream()
    parts = ("main", *(f"{depth}.part" for depth in range(len(outputs) - 1)))
    return [
        Operator(
            name="join_outputs",
            component="prediction",
            reads=tuple(outputs),
            passes=tuple(outputs),
            makes=(Activation(name="outputs", bytes=len(outputs) * size),),
        ),
        Operator(
            name="chunk",
            component="prediction",
            reads=("outputs",),
            makes=tuple(Activation(name=part, bytes=0, gradient=size) for part in parts),
        ),
    ]


def _scored(work: Work, depth: int, scores: Sequence[Operator]) -> list[Operator]:
    """Logits and loss of one further token."""
    prefix = f"{depth}.{_HEAD}"
    part = {"input": f"{depth}.part"}
    named = _renamed(scores, prefix, part, ("output_layer.weight",))
    kept = (
        evolve(each, keeps=tuple("outputs" if name in part.values() else name for name in each.keeps)) for each in named
    )
    return _waiting(work, prefix, kept)


def told_apart(
    work: Work, final: Sequence[Operator], layer: Sequence[Operator], scores: Sequence[Operator]
) -> list[Operator]:
    """The FLOPs alone, where it is on another stage than the output layer."""
    every = prediction(work, final, layer, scores)
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


def _waiting(work: Work, prefix: str, scores: Iterable[Operator]) -> list[Operator]:
    """Of the output layer's weight the gradient by the model's own logits waits for that by these."""
    size = _vocabulary_gradient(work)
    more = {f"{prefix}loss": size, f"{prefix}output_layer": 2 * size}
    return [evolve(each, backward_scratch=each.backward_scratch + more.get(each.name, 0)) for each in scores]


def recomputed(operators: Sequence[Operator], depths: int) -> tuple[Recomputed, ...]:
    """Each runs again from both hidden states to its own normed output."""
    first = {each.name.split(".")[0]: each.name for each in reversed(operators) if ".enorm" in each.name}
    return tuple(
        Recomputed(first=first[str(depth)], last=f"{depth}.final_layernorm") for depth in range(depths) if first
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
