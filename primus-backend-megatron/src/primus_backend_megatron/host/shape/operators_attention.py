"""Self-attention over query, key and value heads."""

from __future__ import annotations

from attrs import evolve

from primus_backend_megatron.host.shape.operators_linear import add, column, row
from primus_backend_megatron.host.shape.operators_norm import norm
from primus_backend_megatron.host.shape.operators_unfused import Unfused, is_unfused
from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.operators import FP32
from primus_core.shape import Activation, Operator

_NAME = "self_attention"


def attention(work: Work) -> list[Operator]:
    """From a layer's input to the stream after attention."""
    weights = ("input_layernorm.weight", *(("input_layernorm.bias",) if work.norm == "LayerNorm" else ()))
    turned, query, key = _turned(work)
    core, held = _core(work, query, key)
    name, width = f"{_NAME}.linear_proj", work.heads * work.head
    bias = f"{name}.bias" if work.bias else ""
    return [
        *norm(work, "input_layernorm", "input", weights),
        *_products(work),
        *turned,
        *core,
        row(work, name, "context", "projected", width, component="attention", holds=held),
        *add(work, f"{_NAME}.add", "projected", "input", "attended", component="attention", bias=bias),
    ]


def _turned(work: Work) -> tuple[list[Operator], str, str]:
    """What is done to queries and keys before they meet; the names of the two then."""
    operators: list[Operator] = []
    query, key = "query", "key"
    if work.case.on("qk_layernorm"):
        operators += _head_norms(work)
        query, key = "query.norm", "key.norm"
    if work.case.values["position_embedding_type"] in ("rope", "yarn"):
        operators.append(_rotated(work, query, "query.rotated", work.heads))
        operators.append(_rotated(work, key, "key.rotated", work.groups))
        query, key = "query.rotated", "key.rotated"
    return operators, query, key


def _products(work: Work) -> list[Operator]:
    """All heads in one product. Queries are copied out of it where several share a key; keys and values are views."""
    width = (work.heads + 2 * work.groups) * work.head
    size = work.wide(work.groups * work.head)
    queries = work.wide(work.heads * work.head)
    copied = work.heads != work.groups
    biased = work.bias or work.case.on("add_qkv_bias")
    return [
        *_product(work, width, biased),
        Operator(
            name="split",
            component="attention",
            reads=("qkv",),
            makes=(
                Activation(name="query", bytes=queries if copied else 0, gradient=queries),
                Activation(name="key", bytes=0, gradient=size),
                Activation(name="value", bytes=0, gradient=size),
            ),
        ),
    ]


def _product(work: Work, width: int, biased: bool) -> list[Operator]:
    """Ranks make equal shares of it, even where they are more than the groups."""
    name = f"{_NAME}.linear_qkv"
    (product,) = column(work, name, "input_layernorm", "qkv", width, inner=work.hidden, component="attention")
    heads = work.case.shape.heads + 2 * work.case.shape.query_groups
    product = evolve(product, flops=2 * work.tokens * work.context * work.hidden * heads * work.head)
    if not biased:
        return [product]
    return [evolve(product, scratch=work.wide(width), weights=(*product.weights, f"{name}.bias"))]


def _head_norms(work: Work) -> list[Operator]:
    rows = work.tokens
    return [
        *norm(work, "query.norm", "query", (f"{_NAME}.q_layernorm.weight",), rows * work.heads, work.head),
        *norm(work, "key.norm", "key", (f"{_NAME}.k_layernorm.weight",), rows * work.groups, work.head),
    ]


def _rotated(work: Work, source: str, made: str, heads: int) -> Operator:
    """Rotary positions: by operations they keep the cosines and sines in the model's numbers, made for each tensor."""
    size = work.wide(heads * work.head)
    angles = 0 if work.fused else 2 * work.length * work.head * work.element
    return Operator(
        name=made,
        component="attention",
        reads=(source,),
        makes=(Activation(name=f"{made}.angles", bytes=angles, gradient=0), Activation(name=made, bytes=size)),
        keeps=(f"{made}.angles",) if angles else (),
        holds=("qkv", "query"),
        scratch=0 if work.fused else 2 * size,
        backward_scratch=0 if work.fused else 2 * size,
    )


def _core(work: Work, query: str, key: str) -> tuple[list[Operator], tuple[str, ...]]:
    """Attention itself, and what the library holds of it a little longer."""
    held = ("query",)
    if is_unfused(work):
        return _unfused(work, query, key), held
    if work.context == 1:
        return [_kernel(work, (query, key, "value"), ("qkv",), held)], held
    size = work.context * work.wide(work.groups * work.head)
    allowed = Activation(name="mask", bytes=work.length * work.length * work.context * work.element, gradient=0)
    gathers = [gather(work, source, size, ("qkv", *held)) for source in (key, "value")]
    reads = (query, f"{key}.gathered", "value.gathered")
    return [*gathers, _kernel(work, reads, (), held, None if work.fused else allowed)], (*held, "qkv", *reads)


def _unfused(work: Work, query: str, key: str) -> list[Operator]:
    sizes = {"groups": work.groups, "head": work.head, "wide": work.head}
    held = ("query", "qkv", key)
    core = Unfused(work=work, query=query, key=key, value="value", stored=("qkv",), holds=held, **sizes)
    return core.operators()


def gather(work: Work, source: str, size: int, holds: tuple[str, ...]) -> Operator:
    """Keys or values of all context parallel ranks, of so many bytes."""
    return Operator(
        name=f"{source}.gather",
        component="attention",
        reads=(source,),
        makes=(Activation(name=f"{source}.gathered", bytes=size),),
        holds=holds,
        backward_scratch=size // work.context,
    )


def _kernel(
    work: Work, reads: tuple[str, ...], stored: tuple[str, ...], holds: tuple[str, ...], mask: Activation | None = None
) -> Operator:
    """Keeps what it reads, its output, one number for each row of the matrix and the mask, where it has one.

    Its backward pass computes the matrix again: five products beside the two of the forward pass.
    """
    context = Activation(name="context", bytes=work.wide(work.heads * work.head))
    sums = Activation(name="context.sums", bytes=work.tokens * work.heads * FP32, gradient=0)
    masks = (mask,) if mask else ()
    length = work.length * work.context
    flops = 4 * work.batch * length * length * work.heads * work.tensor * work.head
    return Operator(
        name="core_attention",
        component="attention",
        reads=reads,
        makes=(*masks, sums, context),
        keeps=(*reads, *stored, sums.name, context.name, *(each.name for each in masks)),
        holds=holds,
        flops=flops,
        backward_flops=flops * 5 // 2,
        causal=True,
    )
