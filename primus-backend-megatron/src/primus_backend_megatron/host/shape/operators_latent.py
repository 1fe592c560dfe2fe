"""Multi-latent attention: queries, keys and values are made of narrow tensors."""

from __future__ import annotations

from attrs import evolve

from primus_backend_megatron.host.shape.operators_attention import gather
from primus_backend_megatron.host.shape.operators_linear import add, row
from primus_backend_megatron.host.shape.operators_norm import norm
from primus_backend_megatron.host.shape.operators_unfused import Unfused, is_unfused
from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.operators import FP32, Latent
from primus_core.shape import Activation, Operator

_NAME = "self_attention"
_COMPONENT = "attention"


def _latent(work: Work) -> Latent:
    """With Megatron's own defaults."""
    size = work.case.size
    return Latent(
        heads=work.heads,
        down=size("q_lora_rank", 0),
        rank=size("kv_lora_rank", 32),
        plain=size("qk_head_dim", 128),
        rotated=size("qk_pos_emb_head_dim", 64),
        value=size("v_head_dim", 128),
    )


def latent_attention(work: Work) -> list[Operator]:
    """From a layer's input to the stream after attention."""
    latent = _latent(work)
    return [
        *norm(work, "input_layernorm", "input", ("input_layernorm.weight",)),
        *_down(work, latent),
        *_up(work, latent),
        *_joined(work, latent),
        *_core(work, latent),
        row(
            work,
            f"{_NAME}.linear_proj",
            "context",
            "projected",
            latent.heads * latent.value,
            component=_COMPONENT,
            holds=("query", "key", "value"),
        ),
        *add(work, f"{_NAME}.add", "projected", "input", "attended", component=_COMPONENT),
    ]


def _narrow(work: Work, features: int) -> int:
    return work.own_tokens * features * work.element


def _down(work: Work, latent: Latent) -> list[Operator]:
    """The narrow tensors. Both are whole on each rank, of the rank's own tokens."""
    operators = []
    if latent.down:
        operators.append(_product(work, "linear_q_down_proj", "input_layernorm", "q.down", latent.down))
    operators.append(_product(work, "linear_kv_down_proj", "input_layernorm", "kv.down", latent.rank + latent.rotated))
    positions = Activation(
        name="key.position",
        bytes=work.wide(latent.rotated) if work.sequence_parallel else 0,
        gradient=work.wide(latent.rotated),
    )
    compressed = Activation(name="kv.compressed", bytes=0, gradient=_narrow(work, latent.rank))
    return [
        *operators,
        Operator(name="kv.split", component=_COMPONENT, reads=("kv.down",), makes=(compressed, positions)),
    ]


def _product(work: Work, name: str, source: str, made: str, features: int) -> Operator:
    """Each rank makes them of its own tokens; of all tokens where ranks do not divide these, but for Megatron's own
    layers, which divide the features."""
    flops = 2 * work.tokens * work.context * work.hidden * features
    return Operator(
        name=f"{_NAME}.{name}",
        component=_COMPONENT,
        reads=(source,),
        makes=(Activation(name=made, bytes=_narrow(work, features)),),
        keeps=(source,),
        weights=(f"{_NAME}.{name}.weight",),
        flops=flops,
        hardware_flops=flops * (work.tensor if work.fused and not work.sequence_parallel else 1),
    )


def _up(work: Work, latent: Latent) -> list[Operator]:
    """Norms of the narrow tensors, and the products that make all heads of them."""
    normed = work.case.on("qk_layernorm")
    operators: list[Operator] = []
    query, compressed = "q.down", "kv.compressed"
    stored: tuple[str, ...] = ("kv.down",)
    if normed:
        if latent.down:
            operators += norm(work, "q.norm", query, (f"{_NAME}.q_layernorm.weight",), work.own_tokens, latent.down)
            query = "q.norm"
        weight = (f"{_NAME}.kv_layernorm.weight",)
        operators += norm(work, "kv.norm", compressed, weight, work.own_tokens, latent.rank, stored)
        compressed, stored = "kv.norm", ()
    width = latent.heads * latent.head
    source, name = (query, "linear_q_up_proj") if latent.down else ("input_layernorm", "linear_q_proj")
    return [
        *operators,
        _raised(work, name, source, "q", width, latent.down or work.hidden, ()),
        _raised(
            work,
            "linear_kv_up_proj",
            compressed,
            "kv",
            latent.heads * (latent.plain + latent.value),
            latent.rank,
            stored,
        ),
    ]


def _raised(work: Work, name: str, source: str, made: str, width: int, inner: int, stored: tuple[str, ...]) -> Operator:
    gathered = work.tokens * inner * work.element if work.sequence_parallel else 0
    return Operator(
        name=f"{_NAME}.{name}",
        component=_COMPONENT,
        reads=(source,),
        makes=(Activation(name=made, bytes=work.wide(width)),),
        keeps=(source, *stored),
        holds=("kv.down",),
        backward_scratch=gathered,
        weights=(f"{_NAME}.{name}.weight",),
        flops=2 * work.tokens * work.context * inner * width * work.tensor,
    )


def _joined(work: Work, latent: Latent) -> list[Operator]:
    """Rotated positions beside what is not rotated, for queries and keys, and values by themselves."""
    heads = latent.heads
    query, plain, value = (work.wide(heads * size) for size in (latent.head, latent.plain, latent.value))
    turned = work.wide(heads * latent.rotated)
    angles = Activation(
        name="angles", bytes=0 if work.fused else 4 * work.length * latent.rotated * work.element, gradient=0
    )
    parts = (
        Activation(name="kv.plain", bytes=0, gradient=plain),
        Activation(name="kv.value", bytes=0, gradient=value),
    )
    return [
        _beside("kv.heads", ("kv",), parts),
        evolve(
            _beside("query", ("q",), (angles, Activation(name="query", bytes=query)), scratch=2 * turned),
            keeps=("angles",),
        ),
        _beside("key", ("kv.plain", "key.position"), (Activation(name="key", bytes=query),), scratch=turned),
        evolve(
            _beside("value", ("kv.value",), (Activation(name="value", bytes=value),)),
            passes=("kv.value",),
        ),
    ]


def _beside(name: str, reads: tuple[str, ...], makes: tuple[Activation, ...], scratch: int = 0) -> Operator:
    """A step while which the library's code still refers to what the products made."""
    kept = ("q", "kv", "kv.down")
    return Operator(name=name, component=_COMPONENT, reads=reads, makes=makes, holds=kept, scratch=scratch)


def _core(work: Work, latent: Latent) -> list[Operator]:
    """In one kernel, or step by step where that does not take values of another size than keys."""
    length = work.length * work.context
    pairs = 2 * work.batch * length * length * latent.heads * work.tensor
    flops = pairs * (latent.head + latent.value)
    context = Activation(name="context", bytes=work.wide(latent.heads * latent.value))
    if is_unfused(work):
        return _unfused(work, latent)
    gathers, reads = _gathered(work, latent)
    if not work.fused and latent.value != latent.head:
        return [*gathers, *_by_operations(work, latent, context, flops, reads)]
    sums = Activation(name="context.sums", bytes=work.tokens * latent.heads * FP32, gradient=0)
    kernel = Operator(
        name="core_attention",
        component=_COMPONENT,
        reads=reads,
        makes=(sums, context),
        keeps=(*reads, sums.name, context.name),
        flops=flops,
        backward_flops=2 * flops + pairs * latent.head,
        causal=True,
    )
    return [*gathers, kernel]


def _unfused(work: Work, latent: Latent) -> list[Operator]:
    core = Unfused(
        work=work,
        query="query",
        key="key",
        value="value",
        groups=latent.heads,
        head=latent.head,
        wide=latent.value,
        holds=("query", "key", "value"),
    )
    return core.operators()


def _gathered(work: Work, latent: Latent) -> tuple[list[Operator], tuple[str, ...]]:
    """Keys and values of all context parallel ranks; the names of what attention then reads."""
    if work.context == 1:
        return [], ("query", "key", "value")
    sizes = {"key": latent.head, "value": latent.value}
    gathers = [
        gather(work, name, work.context * work.wide(latent.heads * size), ("query", "key", "value"))
        for name, size in sizes.items()
    ]
    return gathers, ("query", "key.gathered", "value.gathered")


def _by_operations(
    work: Work, latent: Latent, context: Activation, flops: int, reads: tuple[str, ...]
) -> list[Operator]:
    """Everything in fp32, with the whole matrix of weights: kept are it, and scaled queries, keys and values."""
    matrix = work.batch * latent.heads * work.length * work.length * work.context * FP32
    wide, narrow = (work.tokens * latent.heads * size * FP32 for size in (latent.head, latent.value))
    keys, values = wide * work.context, narrow * work.context
    gradients = (wide + keys + 2 * narrow) * work.element // FP32
    kept = tuple(
        Activation(name=f"core.{name}", bytes=size, gradient=0)
        for name, size in (("query", wide), ("key", keys), ("value", values), ("matrix", matrix))
    )
    return [
        Operator(
            name="core_attention",
            component=_COMPONENT,
            reads=reads,
            makes=(*kept, Activation(name="context.strided", bytes=context.bytes)),
            keeps=tuple(each.name for each in kept),
            scratch=matrix + wide + keys,
            backward_scratch=max(0, 2 * matrix - gradients),
            flops=flops,
            causal=True,
        ),
        Operator(
            name="core_attention.copy",
            component=_COMPONENT,
            reads=("context.strided",),
            passes=("context.strided",),
            makes=(context,),
            holds=("query", "key", "value"),
        ),
    ]
