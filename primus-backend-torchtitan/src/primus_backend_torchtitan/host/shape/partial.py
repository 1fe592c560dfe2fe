"""Gradients that tensor parallel ranks have each a part of, a sum, where they do not divide the tokens.

A norm that is computed one operation after the other passes such a gradient on. The product before it, whose weight is
divided by its inputs, then either sums the gradient over the ranks first or gathers its weight and makes the gradient
of all features; whichever `torch.distributed.tensor` takes to be faster (``_collective_utils.py`` of torch 2.13).
"""

from __future__ import annotations

from attrs import evolve

from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_core.shape import Activation, Operator

_BASE, _HOP, _BANDWIDTH = 6.6, 2.7, 87.7 * 0.22 * 2**30 / 1e6
"""Microseconds of a collective, of each of its hops between hosts, and bytes in a microsecond: torch's own figures. It
takes each CPU rank for a host."""


def whole_gradient(work: Work, width: int) -> bool:
    """The product with a weight of so many inputs on each rank makes the gradient of those of all ranks."""
    if work.fused or work.tensor == 1 or work.sequence_parallel:
        return False
    weight = _weight(work, width)
    halves = _once(work, work.whole) + _once(work, weight // work.tensor) + 1
    return min(_once(work, weight), halves) < _BASE + 2 * _moved(work, work.whole)


def of_whole(work: Work, product: Operator, width: int) -> Operator:
    """The product with what it needs then: the gathered weight and the order it arrived in, before there is a gradient,
    or the sum of the gradient that it read. Each rank makes the gradient of all features."""
    weight = _weight(work, width)
    made = work.tensor * work.wide(width)
    return evolve(
        product,
        backward_scratch=max(weight, 2 * weight - made, work.whole - made),
        backward_flops=product.flops * (work.tensor + 1),
    )


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
