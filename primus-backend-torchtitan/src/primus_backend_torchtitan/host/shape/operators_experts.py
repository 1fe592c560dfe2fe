"""What a mixture of experts makes and keeps of a micro batch, operator by operator, as TorchTitan's code runs them."""

from __future__ import annotations

from attrs import evolve

from primus_backend_torchtitan.host.shape.mixture import MAP, Mixture, index, one
from primus_backend_torchtitan.host.shape.operators_linear import summed
from primus_backend_torchtitan.host.shape.operators_routed import combine, products, send
from primus_backend_torchtitan.host.shape.operators_shared import shared
from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_core.operators import FP32, INT64
from primus_core.shape import Activation, Operator

CHOICES = ("moe.limited", "moe.ids", "moe.best")
"""What choices of the largest scores make: the scores and their positions."""


def experts_operators(work: Work, source: str, output: str) -> tuple[Operator, ...]:
    """From the normalized stream to what is added to the residual one. Tensor parallel ranks that have slices of every
    expert sum what those return before the one that every token uses runs."""
    mixture = Mixture.of(work)
    routed = "moe.routed" if mixture.shared else output
    part = f"{routed}.part" if mixture.slices > 1 else routed
    sums = summed(work, part, routed, "experts") if mixture.slices > 1 else []
    return (
        *_router(mixture, source),
        *_order(mixture, source),
        *(send(mixture) if mixture.apart else ()),
        *products(mixture),
        *combine(mixture, part),
        *(evolve(each, holds=(MAP,)) for each in sums),
        *(shared(mixture, source, output) if mixture.shared else ()),
    )


def _router(mixture: Mixture, source: str) -> list[Operator]:
    """Scores of all experts, and those of the chosen ones. Tensor parallel ranks that do not divide the tokens make all
    of them on each, and the gradients of their own tokens alone."""
    element, count = mixture.work.element, mixture.count
    scores, chosen = mixture.tokens * count * element, mixture.rows * element
    compared, score = mixture.tokens * count * FP32 if mixture.biased else 0, FP32 if mixture.biased else element
    gate = one(
        "moe.router.gate",
        [source],
        [("moe.logits", scores)],
        keeps=[source],
        weights=["moe.router.gate.weight"],
        flops=mixture.product(count),
    )
    operators = [
        evolve(gate, hardware_flops=gate.flops * mixture.slices, backward_flops=2 * gate.flops),
        one("moe.router.score", ["moe.logits"], [("moe.scores", scores)], keeps=["moe.scores"]),
        *_limited(mixture, score),
        Operator(
            name="moe.router.choose",
            component="experts",
            reads=("moe.scores",),
            makes=(
                index("moe.ids", mixture.rows * INT64),
                index("moe.best", mixture.rows * score),
                Activation(name="moe.chosen", bytes=chosen),
            ),
            keeps=("moe.ids", "moe.scores"),
            scratch=compared,
        ),
    ]
    if not mixture.normalized:
        return [*operators, one("moe.router.scale", ["moe.chosen"], [("moe.weights", chosen)])]
    return [*operators, _shares(mixture, chosen), one("moe.router.scale", ["moe.shares"], [("moe.weights", chosen)])]


def _limited(mixture: Mixture, score: int) -> list[Operator]:
    """Groups of experts by the sum of their two best scores, and the best of these groups."""
    size = mixture.tokens * (2 * mixture.groups + mixture.limit) * (score + INT64)
    return [Operator(name="moe.router.limit", component="experts", makes=(index("moe.limited", size),))] * bool(size)


def _shares(mixture: Mixture, chosen: int) -> Operator:
    """The scores of a token's experts, divided by their sum."""
    total = index("moe.total", mixture.tokens * mixture.work.element)
    return Operator(
        name="moe.router.normalize",
        component="experts",
        reads=("moe.chosen",),
        makes=(total, Activation(name="moe.shares", bytes=chosen)),
        keeps=("moe.chosen", total.name),
        backward_scratch=chosen,
    )


def _order(mixture: Mixture, source: str) -> list[Operator]:
    """Tokens by expert: their copies, and their weights."""
    rows = mixture.rows
    order, tokens = index("moe.order", rows * INT64), index("moe.tokens", rows * INT64)
    return [
        Operator(name="moe.map", component="experts", makes=(index(MAP, mixture.tokens * mixture.count),)),
        Operator(
            name="moe.sort",
            component="experts",
            reads=("moe.weights",),
            makes=(order, Activation(name="moe.sorted", bytes=rows * mixture.work.element), tokens),
            keeps=(order.name,),
            holds=(MAP,),
            scratch=rows * INT64,
        ),
        Operator(
            name="moe.copy",
            component="experts",
            reads=(source,),
            makes=(Activation(name="moe.copies", bytes=mixture.copies),),
            keeps=(tokens.name,),
            holds=(MAP,),
        ),
    ]
