"""The feed-forward block, gated by SiLU."""

from __future__ import annotations

from attrs import evolve

from primus_backend_torchtitan.architecture import ffn_hidden_size
from primus_backend_torchtitan.host.shape.operators_linear import add, gathered, product, summed
from primus_backend_torchtitan.host.shape.operators_norm import norm
from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_backend_torchtitan.host.shape.partial import arrives_in_parts, of_parts, whole_gradient
from primus_core.shape import Activation, Operator

_PART = "mlp"


def mlp(work: Work, *, sends: bool = False) -> list[Operator]:
    """From the stream after attention to the layer's output. Where it `sends` that to another stage, its gradient has
    been summed when it comes back."""
    gathers, source = gathered(work, "normed2", _PART)
    held = ("normed2",) if gathers else ()
    made = "down.part" if work.tensor > 1 else "down"
    inner = gated(work, "feed_forward", source, made, work.ffn, _PART, held)
    return [
        *norm(work, "ffn_norm", "middle", "normed2"),
        *gathers,
        *(inner if sends else _summed_late(work, inner)),
        *summed(work, made, "down", _PART, held),
        add(work, "mlp.add", "down", "middle", "output", _PART, held),
    ]


def _summed_late(work: Work, operators: list[Operator]) -> list[Operator]:
    """Where the gradient of what is multiplied is of all features, each of the two made of it needs its sum."""
    if not arrives_in_parts(work):
        return operators
    *first, multiply, last = operators
    last = of_parts(work, last, work.ffn)
    if not whole_gradient(work, work.ffn):
        return [*first, multiply, last]
    size = work.tensor * work.wide(work.ffn)
    inner = evolve(multiply.makes[0], gradient=size)
    return [*first, evolve(multiply, makes=(inner,), backward_scratch=size), last]


def gated(
    work: Work, name: str, source: str, made: str, width: int, component: str, holds: tuple[str, ...] = ()
) -> list[Operator]:
    """Three products and the gate between them; each step keeps what it reads. Shares of ranks may differ by one."""
    size = work.wide(width)
    gate, silu, up, inner = (f"{name}.{part}" for part in ("gate", "silu", "up", "inner"))

    def first(weight: str, result: str) -> Operator:
        return product(
            work, f"{name}.{weight}", source, result, width, inner=work.hidden, component=component, holds=holds
        )

    operators = [
        first("w1", gate),
        _step(f"{name}.activation", (gate,), silu, size, component, holds),
        first("w3", up),
        _step(f"{name}.multiply", (silu, up), inner, size, component, holds),
        product(work, f"{name}.w2", inner, made, work.hidden, inner=width, component=component, holds=holds),
    ]
    flops = 2 * work.tokens * work.context * work.hidden * ffn_hidden_size(work.case.model)
    return [evolve(each, flops=flops, hardware_flops=None) if each.flops else each for each in operators]


def _step(name: str, reads: tuple[str, ...], made: str, size: int, component: str, holds: tuple[str, ...]) -> Operator:
    return Operator(
        name=name,
        component=component,
        reads=reads,
        makes=(Activation(name=made, bytes=size),),
        keeps=reads,
        holds=holds,
    )
