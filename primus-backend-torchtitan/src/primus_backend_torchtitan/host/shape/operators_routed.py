"""What becomes of the tokens that are routed to experts.

Where experts are divided among ranks, tokens are sent to the ranks of their experts, put in the order of these, and
returned (`torchtitan.models.common.token_dispatcher.AllToAllTokenDispatcher`): rows of other ranks are ``routed``.
"""

from __future__ import annotations

from attrs import evolve

from primus_backend_torchtitan.host.shape.mixture import MAP, Mixture, index, one
from primus_core.operators import FP32, INT64
from primus_core.shape import Operator

_ROUTED = "moe.routed_experts.inner_experts"
_PLACES = "moe.places"


def send(mixture: Mixture) -> list[Operator]:
    """Tokens of all ranks for this one's experts, by rank and then by expert."""
    received, size = "moe.received", mixture.copies
    sent = one("moe.send", ["moe.copies"], [(received, size)], routed=True)
    places = index(_PLACES, mixture.rows * INT64)
    order = one("moe.permute", [received], [("moe.mine", size)], routed=True)
    return [
        sent,
        evolve(
            order,
            makes=(places, *order.makes),
            keeps=(_PLACES,),
            holds=(*order.holds, "moe.copies"),
            scratch=mixture.rows * INT64,
        ),
    ]


def products(mixture: Mixture) -> list[Operator]:
    """Three grouped products and the gate between them."""
    copies, wide = [_given(mixture)], mixture.wide
    flops, routed = mixture.product(mixture.inner * mixture.slices, mixture.chosen), mixture.apart

    def product(name: str, reads: list[str], made: str, size: int, weight: str) -> Operator:
        weights = [f"{_ROUTED}.{weight}"]
        return one(f"{_ROUTED}.{name}", reads, [(made, size)], keeps=reads, weights=weights, flops=flops, routed=routed)

    def step(name: str, reads: list[str], made: str) -> Operator:
        return one(f"{_ROUTED}.{name}", reads, [(made, wide)], keeps=reads, routed=routed)

    return [
        product("w1", copies, "moe.gate", wide, "w1_EFD"),
        step("silu", ["moe.gate"], "moe.gated"),
        product("w3", copies, "moe.up", wide, "w3_EFD"),
        step("multiply", ["moe.gated", "moe.up"], "moe.inner"),
        product("w2", ["moe.inner"], "moe.out", mixture.copies, "w2_EDF"),
    ]


def combine(mixture: Mixture, output: str) -> list[Operator]:
    """What experts return, weighed in fp32 and added up by token."""
    element, rows = mixture.work.element, mixture.rows * mixture.work.hidden
    back, out = _returned(mixture) if mixture.apart else ([], "moe.out")
    last = "moe.cast" if element != FP32 else out
    weighed = evolve(
        _added(mixture, "moe.weigh", [last, "moe.sorted"], "moe.weighed", rows * FP32, out),
        keeps=(last, "moe.sorted"),
        backward_scratch=rows * FP32 + mixture.rows * FP32,
    )
    if element == FP32:
        return [*back, weighed, _sum(mixture, "moe.weighed", output, out)]
    cast = one("moe.cast", [out], [("moe.cast", rows * FP32)])
    return [
        *back,
        evolve(cast, holds=(*cast.holds, *_held(mixture))),
        weighed,
        _added(mixture, "moe.round", ["moe.weighed"], "moe.rounded", rows * element, out),
        _sum(mixture, "moe.rounded", output, "moe.rounded"),
    ]


def _given(mixture: Mixture) -> str:
    """What the experts read."""
    return "moe.mine" if mixture.apart else "moe.copies"


def _held(mixture: Mixture) -> tuple[str, ...]:
    """What TorchTitan's code refers to until the experts' output has been added up."""
    return MAP, _given(mixture), "moe.out"


def _returned(mixture: Mixture) -> tuple[list[Operator], str]:
    """Rows go back in the order in which they came; those of this rank's tokens, and their name."""
    size, back, returned = mixture.copies, "moe.back", "moe.returned"
    order = one("moe.unpermute", ["moe.out"], [(back, size)], keeps=[_PLACES], routed=True)
    home = one("moe.return", [back], [(returned, size)])
    return [evolve(each, holds=_held(mixture)) for each in (order, home)], returned


def _sum(mixture: Mixture, source: str, output: str, held: str) -> Operator:
    return evolve(_added(mixture, "moe.add_up", [source], output, mixture.stream, held), keeps=("moe.tokens",))


def _added(mixture: Mixture, name: str, reads: list[str], made: str, size: int, held: str) -> Operator:
    """A step beside which what the experts read, their output and the empty sums live."""
    operator = one(name, reads, [(made, size)])
    return evolve(operator, holds=(*_held(mixture), held), scratch=mixture.stream)
