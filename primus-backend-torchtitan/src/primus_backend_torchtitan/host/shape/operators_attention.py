"""Self-attention over query, key and value heads."""

from __future__ import annotations

from attrs import evolve

from primus_backend_torchtitan.families import LLAMA, family_of
from primus_backend_torchtitan.host.shape.operators_linear import add, gathered, product, summed
from primus_backend_torchtitan.host.shape.operators_norm import norm
from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_backend_torchtitan.host.shape.partial import arrives_in_parts, of_parts, scattered, whole_gradient
from primus_core.operators import COMPLEX, FP32
from primus_core.shape import Activation, Operator

_NAME = "attention"


def attention(work: Work) -> list[Operator]:
    """From a layer's input to the stream after attention."""
    gathers, source = gathered(work, "normed", _NAME)
    held = ("normed",) if gathers else ()
    width = work.heads * work.head
    made = "attended.part" if work.tensor > 1 else "attended"
    return [
        *norm(work, "attention_norm", "input", "normed"),
        *gathers,
        *_products(work, source),
        *_head_norms(work),
        _rotated(work),
        *core(work, ("query.turned", "key.turned", "value"), work.groups * work.head, work.groups * work.head, width),
        *last_product(work, made, width, held),
        *summed(work, made, "attended", _NAME, held),
        add(work, "attention.add", "attended", "input", "middle", _NAME, held),
    ]


def last_product(work: Work, made: str, width: int, held: tuple[str, ...]) -> list[Operator]:
    """Of what heads have found, so many features on each rank."""
    last = product(work, f"{_NAME}.wo", "context", made, work.hidden, inner=width, component=_NAME, holds=held)
    if not arrives_in_parts(work):
        return [last]
    last = of_parts(work, last, width)
    if not whole_gradient(work, width):
        return [last]
    divided = scattered(work, "context", "context.divided", width, _NAME)
    return [divided, evolve(last, reads=("context.divided",))]


def _products(work: Work, source: str) -> list[Operator]:
    model, name = work.case.model, f"{_NAME}.qkv_linear"
    biased = bool(model["add_qkv_bias"])
    queries, others = work.heads * work.head, work.groups * work.head
    if not model["fuse_qkv"]:
        widths = {"wq": ("query", queries), "wk": ("key", others), "wv": ("value", others)}
        return [
            product(work, f"{name}.{part}", source, made, width, inner=work.hidden, component=_NAME, biased=biased)
            for part, (made, width) in widths.items()
        ]
    every = queries + 2 * others
    return [
        product(work, f"{name}.wqkv", source, "qkv", every, inner=work.hidden, component=_NAME, biased=biased),
        Operator(
            name="attention.split",
            component=_NAME,
            reads=("qkv",),
            makes=tuple(
                Activation(name=made, bytes=work.wide(width))
                for made, width in (("query", queries), ("key", others), ("value", others))
            ),
        ),
    ]


def _head_norms(work: Work) -> list[Operator]:
    if not work.case.model["qk_layernorm"]:
        return []
    rows = work.tokens
    return [
        *norm(work, f"{_NAME}.q_norm", "query", "query.normed", rows * work.heads, work.head),
        *norm(work, f"{_NAME}.k_norm", "key", "key.normed", rows * work.groups, work.head),
    ]


def _rotated(work: Work) -> Operator:
    """Rotary positions: each token's angles are looked up, by every layer for itself; the rest is done in fp32."""
    queries, keys = work.heads * work.head, work.groups * work.head
    normed = ".normed" if work.case.model["qk_layernorm"] else ""
    sources = (f"query{normed}", f"key{normed}")
    complex_ = family_of(work.case.model) is LLAMA
    angles = work.tokens * (work.head // 2 * COMPLEX if complex_ else work.head * 2 * FP32)
    exact = work.tokens * (queries + keys) * FP32
    return Operator(
        name="attention.rope",
        component=_NAME,
        reads=sources,
        makes=(
            Activation(name="angles", bytes=angles, gradient=0),
            Activation(name="query.turned", bytes=work.wide(queries)),
            Activation(name="key.turned", bytes=work.wide(keys)),
        ),
        keeps=("angles",),
        scratch=2 * exact if work.element != FP32 else exact,
        backward_scratch=work.tokens * queries * FP32 + angles,
    )


def core(work: Work, reads: tuple[str, str, str], keys: int, values: int, width: int) -> list[Operator]:
    """Attention, before which keys and values of all context parallel ranks are gathered.

    Args:
        reads: queries, keys and values.
        keys, values, width: features of a token's keys, values and results.
    """
    query, key, value = reads
    if work.context == 1:
        return [kernel(work, reads, width, keys, values)]
    names = (f"{key}.whole", f"{value}.whole")
    gather = Operator(
        name="attention.gather",
        component=_NAME,
        reads=(key, value),
        makes=tuple(
            Activation(name=made, bytes=work.context * work.wide(features))
            for made, features in zip(names, (keys, values), strict=True)
        ),
    )
    return [gather, kernel(work, (query, *names), width, keys, values)]


def kernel(work: Work, reads: tuple[str, ...], width: int, keys: int, values: int) -> Operator:
    """Attention itself: it keeps what it reads, its output and one number for each row of the matrix.

    On a CPU each layer has the mask as numbers that are added. Its backward pass computes the matrix again.
    """
    length = work.length * work.context
    mask = 0 if work.fused else work.batch * work.length * length * work.element
    masks = (Activation(name="mask", bytes=mask, gradient=0),) if mask else ()
    sums = Activation(name="context.sums", bytes=work.tokens * work.heads * FP32, gradient=0)
    context = Activation(name="context", bytes=work.wide(width))
    scores = width if keys == values else width * keys // values
    pairs = 2 * work.batch * length * length * work.tensor
    return Operator(
        name="attention.inner_attention",
        component=_NAME,
        reads=reads,
        makes=(*masks, sums, context),
        keeps=(*reads, sums.name, context.name, *(each.name for each in masks)),
        flops=pairs * (scores + width),
        backward_flops=pairs * (3 * scores + 2 * width),
        causal=True,
    )
