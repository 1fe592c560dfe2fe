"""The ends of the model: the embedding, and the output layer with the loss."""

from __future__ import annotations

from attrs import evolve

from primus_backend_megatron.host.shape.operators_linear import column, dropout
from primus_backend_megatron.host.shape.operators_norm import norm
from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.operators import FP32, INT64
from primus_core.shape import Activation, Operator

_BF16 = 2


def embedding(work: Work) -> list[Operator]:
    """Rows of the table, made sequence first. Tokens and positions of a batch that is kept anyway are not counted."""
    size, read = work.stream(), 0 if work.batches() and work.context == 1 else 2 * work.tokens * INT64
    tokens = Activation(name="tokens", bytes=read, gradient=0)
    return [
        Operator(
            name="word_embeddings",
            component="embedding",
            makes=(tokens, Activation(name="rows", bytes=work.whole)),
            keeps=("tokens",),
            weights=("embedding.word_embeddings.weight",),
        ),
        Operator(
            name="transpose",
            component="embedding",
            reads=("rows",),
            passes=("rows",),
            makes=(Activation(name="transposed" if work.dropout else "output", bytes=size),),
        ),
        *([dropout(work, "dropout", "transposed", "output", "embedding")] if work.dropout else ()),
    ]


def head(work: Work) -> list[Operator]:
    """Final norm, logits and the loss of each token.

    The library holds the logits and what the first layer read, which is as large as what the last one made, until the
    loss is there; where that is recomputed or was received from another stage it is kept anyway. The loss keeps the
    probabilities in fp32, in the place of its copy of the logits; backward they become the gradient.
    """
    return [*final_norm(work), *scores(work, "final_layernorm")]


def final_norm(work: Work) -> list[Operator]:
    """The norm of the last layer's output."""
    weights = (
        "decoder.final_layernorm.weight",
        *(("decoder.final_layernorm.bias",) if work.norm == "LayerNorm" else ()),
    )
    return _waiting(work, norm(work, "final_layernorm", "input", weights))


def scores(work: Work, source: str) -> list[Operator]:
    """Logits and loss of a normed output."""
    return [_logits(work, source), *_loss(work)]


def _waiting(work: Work, operators: list[Operator]) -> list[Operator]:
    """The gradient of a tied weight is there while these run backward."""
    waits = tied_gradient(work)
    return [evolve(each, backward_scratch=each.backward_scratch + waits) for each in operators]


def _logits(work: Work, source: str) -> Operator:
    """The product with the output layer's weight, or with the embedding's, where that is the same tensor. The model
    needs no more than the rows of known tokens.

    In fp32 the loss works in the place of the logits, which is then that of their gradient.
    """
    (product,) = column(work, "output_layer", source, "logits", work.vocabulary, inner=work.hidden, component="head")
    known = min(work.case.shape.vocabulary, work.case.size("vocab_size", work.case.shape.vocabulary))
    needed = 2 * work.tokens * work.context * work.hidden * known
    product = evolve(product, flops=needed, hardware_flops=product.flops)
    if gradient := tied_gradient(work):
        product = evolve(product, weights=(), backward_scratch=product.backward_scratch + gradient)
    return evolve(product, keeps=(*product.keeps, "logits")) if work.element == FP32 else product


def _loss(work: Work) -> list[Operator]:
    """Fused, it keeps as much, and makes the gradient of the logits in bf16, whatever their format."""
    exact = work.logits(FP32) if work.element != FP32 else 0
    probabilities = Activation(name="probabilities", bytes=exact, gradient=0)
    made_anew = work.case.on("cross_entropy_loss_fusion") and not work.case.on("bf16")
    targets = Activation(name="targets", bytes=work.tokens * (3 * INT64 + 3 * FP32 + 1), gradient=0)
    return [
        Operator(
            name="loss",
            component="loss",
            reads=("logits",),
            holds=("logits",) if _keeps_first(work) else ("logits", "input"),
            makes=(probabilities, targets, Activation(name="loss", bytes=work.tokens * FP32)),
            keeps=("probabilities", "targets"),
            scratch=_beside_predictions(work) + _arrived(work),
            backward_scratch=work.logits(_BF16) if made_anew else 0,
            passes=("logits",) if work.element == FP32 and not made_anew else (),
        )
    ]


def _beside_predictions(work: Work) -> int:
    """With multi-token prediction the library still holds the model's normed output, and what the first layer read is
    not what this block is given. Norms that keep what they read keep both anyway."""
    if not work.case.on("mtp_num_layers") or work.fused or work.norm == "LayerNorm":
        return 0
    again = work.case.values["recompute_granularity"] == "full" and work.case.values["recompute_method"] == "uniform"
    return work.stream() * (int(not again) + int(not _keeps_first(work)))


def _arrived(work: Work) -> int:
    """With FSDP2 the loss is computed inside the sharded model: the buffer that the output layer's weight arrived in
    stays until the loss is there. The backward pass fills it before that of the loss, as that of a layer."""
    return work.vocabulary * work.hidden * work.element if work.case.on("use_torch_fsdp2") else 0


def _keeps_first(work: Work) -> bool:
    piped = work.case.size("pipeline_model_parallel_size") > 1
    return piped or work.case.values["recompute_granularity"] == "full"


def tied_gradient(work: Work) -> int:
    """Bytes of the gradient of a weight that the embedding has too: it waits for that of the embedding."""
    if not work.case.shape.tied_embeddings or work.case.size("pipeline_model_parallel_size") > 1:
        return 0
    return work.vocabulary * work.hidden * work.element
