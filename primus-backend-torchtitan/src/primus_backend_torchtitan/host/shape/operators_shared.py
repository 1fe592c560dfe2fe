"""The expert that every token uses."""

from __future__ import annotations

from attrs import evolve

from primus_backend_torchtitan.host.shape.mixture import MAP, Mixture, one
from primus_backend_torchtitan.host.shape.operators_linear import gathered, summed
from primus_core.shape import Activation, Operator

_NAME = "moe.shared_experts"


def shared(mixture: Mixture, source: str, output: str) -> list[Operator]:
    """Its products, and the sum with what the others return. Its features are divided by tensor parallel ranks, which
    gather the tokens for it beside experts that are divided among ranks."""
    gathers, source = gathered(mixture.work, source, "experts") if mixture.apart else ([], source)
    partial = mixture.work.tensor > 1
    sums = summed(mixture.work, "moe.shared.part", "moe.shared", "experts") if partial else []
    operators = [*gathers, *_products(mixture, source, "moe.shared.part" if partial else "moe.shared"), *sums]
    both = ("moe.routed", "moe.shared")
    add = Operator(
        name="moe.add",
        component="experts",
        reads=both,
        passes=both,
        makes=(Activation(name=output, bytes=mixture.work.stream()),),
    )
    return [evolve(each, holds=(MAP,)) for each in (*operators, add)]


def _products(mixture: Mixture, source: str, output: str) -> list[Operator]:
    """Tokens of all ranks that share them."""
    work = mixture.work
    wide, flops = work.wide(mixture.shared), mixture.product(mixture.shared * work.tensor)
    gate, gated, up, inner = (f"{_NAME}.{part}" for part in ("gate", "gated", "up", "inner"))

    def product(name: str, read: str, made: str, size: int) -> Operator:
        weights = [f"{_NAME}.{name}.weight"]
        return one(f"{_NAME}.{name}", [read], [(made, size)], keeps=[read], weights=weights, flops=flops)

    return [
        product("w1", source, gate, wide),
        one(f"{_NAME}.silu", [gate], [(gated, wide)], keeps=[gate]),
        product("w3", source, up, wide),
        one(f"{_NAME}.multiply", [gated, up], [(inner, wide)], keeps=[gated, up]),
        product("w2", inner, output, work.whole),
    ]
