"""Multi-latent attention: queries, keys and values are made of narrow tensors."""

from __future__ import annotations

from attrs import evolve

from primus_backend_torchtitan.architecture import size
from primus_backend_torchtitan.host.shape.operators_attention import core, last_product
from primus_backend_torchtitan.host.shape.operators_linear import add, gathered, product, summed
from primus_backend_torchtitan.host.shape.operators_norm import norm
from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_core.operators import COMPLEX, FP32, Latent
from primus_core.shape import Activation, Operator

_NAME = "attention"
PRODUCTS = ("attention.scores", "attention.exact")
"""What the products of matrices make that attention is on a CPU, where values have another width than keys."""


def _latent(work: Work) -> Latent:
    """What the model has."""
    model = work.case.model
    return Latent(
        heads=work.heads,
        down=size(model, "q_lora_rank", 0),
        rank=size(model, "kv_lora_rank"),
        plain=size(model, "qk_head_dim"),
        rotated=size(model, "qk_pos_emb_head_dim"),
        value=size(model, "v_head_dim"),
    )


def latent_attention(work: Work) -> list[Operator]:
    """From a layer's input to the stream after attention."""
    latent = _latent(work)
    gathers, source = gathered(work, "normed", _NAME)
    held = ("normed",) if gathers else ()
    width = work.heads * latent.value
    made = "attended.part" if work.tensor > 1 else "attended"
    return [
        *norm(work, "attention_norm", "input", "normed"),
        *gathers,
        *_queries(work, latent, source),
        _narrow(work, "wkv_a", source, "kv", latent.rank + latent.rotated),
        _turned(work, latent),
        *_keys_and_values(work, latent),
        *_core(work, latent),
        *last_product(work, made, width, held),
        *summed(work, made, "attended", _NAME, held),
        add(work, "attention.add", "attended", "input", "middle", _NAME, held),
    ]


def _narrow(work: Work, name: str, source: str, made: str, width: int) -> Operator:
    """Each tensor parallel rank has this weight whole, and makes all features of all tokens."""
    return product(work, f"{_NAME}.{name}", source, made, width, inner=work.hidden, component=_NAME, divided=False)


def _queries(work: Work, latent: Latent, source: str) -> list[Operator]:
    width = work.heads * latent.head
    if not latent.down:
        return [product(work, f"{_NAME}.wq", source, "q", width, inner=work.hidden, component=_NAME)]
    return [
        _narrow(work, "wq_a", source, "q.down", latent.down),
        *norm(work, f"{_NAME}.q_norm", "q.down", "q.normed", work.tokens, latent.down),
        product(work, f"{_NAME}.wq_b", "q.normed", "q", width, inner=latent.down, component=_NAME, holds=("q.down",)),
    ]


def _turned(work: Work, latent: Latent) -> Operator:
    """Rotary positions of a part of each query, and of the one key that all heads share; whole queries again."""
    queries, key = work.heads * latent.rotated, latent.rotated
    angles = work.tokens * latent.rotated // 2 * COMPLEX
    exact = work.tokens * (queries + key) * FP32
    every = work.wide(work.heads * latent.head)
    return Operator(
        name="attention.rope",
        component=_NAME,
        reads=("q", "kv"),
        makes=(
            Activation(name="angles", bytes=angles, gradient=0),
            Activation(name="key.turned", bytes=work.wide(key)),
            Activation(name="query", bytes=every),
        ),
        keeps=("angles",),
        scratch=max(2 * exact + work.wide(queries) - every, work.wide(queries)),
        backward_scratch=work.tokens * queries * FP32 + angles,
    )


def _keys_and_values(work: Work, latent: Latent) -> list[Operator]:
    """Values are a part of what the second product makes; keys are copied together."""
    rows, width = work.tokens, work.heads * (latent.plain + latent.value)
    return [
        *norm(work, f"{_NAME}.kv_norm", "kv", "kv.normed", rows, latent.rank),
        product(work, f"{_NAME}.wkv_b", "kv.normed", "kv.up", width, inner=latent.rank, component=_NAME, holds=("kv",)),
        Operator(
            name="attention.split",
            component=_NAME,
            reads=("kv.up", "key.turned"),
            makes=(
                Activation(name="value", bytes=0, gradient=work.wide(work.heads * latent.value)),
                Activation(name="key", bytes=work.wide(work.heads * latent.head)),
            ),
        ),
    ]


def _core(work: Work, latent: Latent) -> list[Operator]:
    keys, values = work.heads * latent.head, work.heads * latent.value
    operators = core(work, ("query", "key", "value"), keys, values, values)
    if not work.fused:
        return [*operators[:-1], _by_operations(work, operators[-1], keys, values)]
    stored = ("kv.up",) if work.context == 1 else ()
    last = operators[-1]
    return [*operators[:-1], evolve(last, keeps=(*last.keeps, *stored))]


def _by_operations(work: Work, kernel: Operator, keys: int, values: int) -> Operator:
    """On a CPU, where values have another width than keys, the whole matrix is made, in fp32, and kept; so are copies
    of queries, keys and values in fp32."""
    queries, whole = work.tokens * keys * FP32, work.context * work.tokens * FP32
    matrix = work.batch * work.heads * work.length * work.length * work.context * FP32
    exact = queries + whole * (keys + values)
    arriving = work.wide(values) + work.wide(keys) + whole * (keys + values) * work.element // FP32
    context, rounded = kernel.makes[-1], work.tokens * values * FP32
    return evolve(
        kernel,
        makes=(
            *(
                Activation(name=name, bytes=size, gradient=0)
                for name, size in zip(PRODUCTS, (matrix, rounded), strict=True)
            ),
            Activation(name="matrix", bytes=matrix, gradient=0),
            Activation(name="exact", bytes=exact, gradient=0),
            context,
        ),
        keeps=("matrix", "exact", context.name),
        scratch=max(0, queries + 2 * whole * keys - rounded - context.bytes),
        backward_scratch=max(0, 2 * matrix - arriving),
        backward_flops=None,
    )
