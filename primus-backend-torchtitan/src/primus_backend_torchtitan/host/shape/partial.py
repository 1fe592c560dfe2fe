"""Gradients that tensor parallel ranks have each a part of, a sum, where they do not divide the tokens.

A norm that is computed one operation after the other passes such a gradient on. The product before it, whose weight is
divided by its inputs, then either sums the gradient over the ranks first or gathers its weight and makes the gradient
of all features; whichever `torch.distributed.tensor` takes to be faster (``_collective_utils.py`` of torch 2.13).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve

from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_core.shape import Activation, Operator, Parameter

_BASE, _HOP, _BANDWIDTH = 6.6, 2.7, 87.7 * 0.22 * 2**30 / 1e6
"""Microseconds of a collective, of each of its hops between hosts, and bytes in a microsecond: torch's own figures. It
takes each CPU rank for a host."""


def whole_gradient(work: Work, width: int) -> bool:
    """The product with a weight of so many inputs on each rank makes the gradient of those of all ranks."""
    return _in_parts(work, _weight(work, width))


def whole_weight(work: Work, width: int) -> bool:
    """It makes the gradient of the whole weight: of its inputs, which are gathered, from a part of the sum."""
    return _in_parts(work, work.tensor * work.wide(width))


def whole_weights(work: Work, parameters: Iterable[Parameter], widths: Mapping[str, int]) -> tuple[Parameter, ...]:
    """Parameters, of which those by name that have so many inputs on each rank may get the gradient of all of them."""
    return tuple(evolve(one, partial=one.name in widths and whole_weight(work, widths[one.name])) for one in parameters)


def of_parts(work: Work, product: Operator, width: int) -> Operator:
    """The product with what it needs where its gradient is a part of a sum: what it gathers and the order that arrived
    in, before there is a gradient, or the sum of the gradient that it read."""
    inputs, weights = whole_gradient(work, width), whole_weight(work, width)
    runs = (work.tensor if inputs else 1) + (work.tensor if weights else 1)
    return evolve(product, backward_scratch=_scratch(work, width, inputs), backward_flops=product.flops * runs)


def _scratch(work: Work, width: int, inputs: bool) -> int:
    weight, read = _weight(work, width), work.tensor * work.wide(width)
    if inputs:
        return max(weight, 2 * weight - read, work.whole - read)
    made = work.wide(width)
    return max(read - made, 2 * read - made - weight, work.whole) if whole_weight(work, width) else work.whole


def _in_parts(work: Work, other: int) -> bool:
    """What a part of the sum is multiplied with, of so many bytes in all ranks, is rather gathered, or both are divided
    anew, than the sum is made first."""
    if not arrives_in_parts(work):
        return False
    halves = _once(work, work.whole) + _once(work, other // work.tensor) + 1
    return min(_once(work, other), halves) < _BASE + 2 * _moved(work, work.whole)


def arrives_in_parts(work: Work) -> bool:
    """Norms pass on gradients that are parts of sums."""
    return not work.fused and work.tensor > 1 and not work.sequence_parallel


def scattered(work: Work, source: str, made: str, width: int, component: str) -> Operator:
    """Passes on an activation of which the gradient of all features arrives, and is summed and divided."""
    return Operator(
        name=made,
        component=component,
        reads=(source,),
        makes=(Activation(name=made, bytes=0, gradient=work.tensor * work.wide(width)),),
        backward_scratch=work.tensor * work.wide(width),
    )


def _weight(work: Work, width: int) -> int:
    """Bytes of the whole weight."""
    return work.tensor * width * work.hidden * work.element


def _moved(work: Work, size: int) -> float:
    """Microseconds in which so many bytes go once through all ranks."""
    return (work.tensor - 1) * (_HOP + size / work.tensor / _BANDWIDTH)


def _once(work: Work, size: int) -> float:
    """Of a collective that gathers or scatters so many bytes."""
    return _BASE + _moved(work, size)
