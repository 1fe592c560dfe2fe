"""The ends of the model: the embedding, and the output layer with the loss."""

from __future__ import annotations

from attrs import evolve

from primus_backend_torchtitan.architecture import size
from primus_backend_torchtitan.host.case import PIPELINE
from primus_backend_torchtitan.host.shape.dense import shares_embedding
from primus_backend_torchtitan.host.shape.operators_linear import gathered, product, summed
from primus_backend_torchtitan.host.shape.operators_norm import norm
from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_backend_torchtitan.host.shape.tensors import DTYPES
from primus_core.operators import FP32, INT64
from primus_core.shape import DTYPE_BYTES, Activation, Operator


def embedding(work: Work) -> list[Operator]:
    """Rows of the table; tensor parallel ranks have some of its rows, and zeros for other tokens.

    On a CPU the mask of all layers is among it; with a pipeline those of all micro batches live through the step.
    """
    mask = 0 if work.fused or work.case.size(PIPELINE) > 1 else work.batch * work.length * work.length * work.context
    kept = mask + (work.tokens * (INT64 + work.element) if work.tensor > 1 else 0)
    made = "rows" if work.tensor > 1 else "output"
    return [
        Operator(
            name="tok_embeddings",
            component="embedding",
            makes=(
                Activation(name="mask", bytes=kept, gradient=0),
                Activation(name=made, bytes=work.whole),
            ),
            keeps=("mask",),
            scratch=work.whole if work.tensor > 1 else 0,
            backward_scratch=work.whole if work.tensor > 1 else 0,
            weights=("tok_embeddings.weight",),
        ),
        *summed(work, "rows", "output", "embedding"),
    ]


def final_norm(work: Work) -> list[Operator]:
    """Of all tokens, as the output layer reads them."""
    gathers, _ = gathered(work, "normed", "head")
    return [*norm(work, "norm", "input", "normed"), *gathers]


def head(work: Work) -> list[Operator]:
    """Final norm, logits and the loss of the whole micro batch at once."""
    before = final_norm(work)
    source = before[-1].makes[-1].name
    return [*before, *logits(work, source)]


def logits(work: Work, source: str) -> list[Operator]:
    """The output layer, and the loss: it keeps the logarithms of probabilities in fp32.

    TorchTitan's own loss over divided logits has one tensor more of that size in both passes. A pipeline keeps the
    output of its last stage.
    """
    exact = work.logits(FP32)
    narrow = work.element != FP32
    divided = work.tensor > 1
    forward = (exact if narrow else 0) + (exact if divided else 0)
    backward = (2 if divided else 1) * exact + (exact // 2 if narrow else 0)
    output = product(work, "lm_head", source, "logits", work.vocabulary, inner=work.hidden, component="head")
    needed, run = _flops(work)
    output = evolve(output, flops=needed, hardware_flops=run)
    if shares_embedding(work.case):
        output = evolve(output, weights=("tok_embeddings.weight",))
    return [
        output,
        Operator(
            name="loss",
            component="loss",
            reads=("logits",),
            makes=(Activation(name="probabilities", bytes=exact, gradient=0),),
            keeps=("probabilities", *(("logits",) if work.case.size(PIPELINE) > 1 else ())),
            scratch=forward,
            backward_scratch=backward,
        ),
    ]


def _flops(work: Work) -> tuple[int, int]:
    """Operations of the product with the output layer's weight that the model needs, which are those of known tokens,
    and that run."""
    rows = size(work.case.model, "padded_vocab_size")
    known = min(rows, size(work.case.model, "vocab_size", rows))
    row = 2 * work.tokens * work.context * work.hidden
    return row * known, row * rows


def pieces(work: Work, number: int) -> list[Operator]:
    """The loss in pieces of the sequence, each forward and backward by itself before the next one begins.

    Copies of the pieces, where there are several samples, and the sum of their gradients in fp32 live all the time; so
    does the gradient of the output layer's weight, in fp32, to which each piece adds its own. The logits of a piece
    stay until the next ones are there. After the last piece the weight's gradient is reduced, and then that of the
    stream is made. With a pipeline all this happens once a micro batch has run forward, and the stream's gradient stays
    until it runs backward; a buffer that the weight's gradient is sent from is there already, of the micro batch
    before. Where weights are kept in another format than fp32, a shard of the reduced gradient is converted.
    """
    exact = work.logits(FP32) // number
    logits_ = work.logits() // number
    numbers = work.vocabulary * work.hidden
    summed_ = numbers * FP32
    loss = logits_ + (4 if work.tensor > 1 else 3) * exact
    piece = work.whole // number
    weight = 2 * logits_ + numbers * work.element + piece
    kept = DTYPE_BYTES[DTYPES[work.case.values["training.dtype"]]]
    converted = kept if kept != FP32 and work.case.shards > 1 else 0
    reduced = logits_ + piece + summed_ + numbers // work.case.shards * (FP32 + converted)
    needed, run = _flops(work)
    piped = work.case.size(PIPELINE) > 1
    stream_sum = work.whole // work.element * FP32
    copies = work.whole if work.batch > 1 else 0
    most = stream_sum + copies + summed_ + max(loss, weight, reduced - (summed_ if piped else 0))
    scratch = max(stream_sum, most - work.whole)
    stream = (Activation(name="gradient", bytes=work.whole, gradient=0),) if piped else ()
    return [
        Operator(
            name="loss",
            component="loss",
            reads=("input",),
            makes=(Activation(name="loss", bytes=FP32, gradient=0), *stream),
            keeps=("input", *(made.name for made in stream)),
            scratch=scratch if piped else 0,
            backward_scratch=0 if piped else scratch,
            flops=needed,
            hardware_flops=run,
        )
    ]
