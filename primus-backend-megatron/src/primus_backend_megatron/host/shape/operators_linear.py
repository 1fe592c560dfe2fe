"""Matrix products whose weights are divided over tensor parallel ranks, and the additions that follow them."""

from __future__ import annotations

from attrs import evolve

from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.shape import Activation, Operator


def column(
    work: Work, name: str, source: str, made: str, width: int, *, inner: int, component: str, biased: bool = False
) -> list[Operator]:
    """Each rank makes its share of the features of all tokens.

    With sequence parallelism the tokens are gathered into a buffer that the library keeps; backward, the gradient of
    all tokens is made first and then summed into each rank's own.

    Args:
        width: features of this rank's share.
        inner: features that are read, for the number of operations.
    """
    size = work.wide(width)
    operators = [
        Operator(
            name=name,
            component=component,
            reads=(source,),
            makes=(Activation(name=f"{made}.product" if biased else made, bytes=size),),
            keeps=(source,),
            backward_scratch=work.gathered(),
            weights=(f"{name}.weight",),
            flops=2 * work.tokens * work.context * inner * width * work.tensor,
        )
    ]
    if biased:
        operators.append(
            Operator(
                name=f"{name}.bias",
                component=component,
                reads=(f"{made}.product",),
                makes=(Activation(name=made, bytes=size),),
                passes=(f"{made}.product",),
                weights=(f"{name}.bias",),
            )
        )
    return operators


def row(
    work: Work, name: str, source: str, made: str, width: int, *, component: str, holds: tuple[str, ...] = ()
) -> Operator:
    """Each rank multiplies its share of the features; the sums of all ranks are the result.

    Args:
        width: features of this rank's share.
    """
    return Operator(
        name=name,
        component=component,
        reads=(source,),
        makes=(Activation(name=made, bytes=work.stream()),),
        keeps=(source,),
        holds=holds,
        scratch=work.gathered(),
        backward_scratch=work.gathered(),
        weights=(f"{name}.weight",),
        flops=2 * work.tokens * work.context * width * work.tensor * work.hidden,
    )


def add(
    work: Work, name: str, branch: str, residual: str, made: str, *, component: str, bias: str = ""
) -> list[Operator]:
    """Bias, dropout and addition to the residual stream. The library refers to what comes before each step until the
    last has run."""
    operators, source, held = [], branch, [branch]
    if bias:
        operators.append(_addition(work, f"{name}.bias", (source,), f"{made}.biased", component, (bias,)))
        source = f"{made}.biased"
        held.append(source)
    if work.dropout:
        operators.append(dropout(work, f"{name}.dropout", source, f"{made}.dropped", component))
        source = f"{made}.dropped"
    return [*operators, evolve(_addition(work, name, (source, residual), made, component, ()), holds=tuple(held))]


def _addition(
    work: Work, name: str, reads: tuple[str, ...], made: str, component: str, weights: tuple[str, ...]
) -> Operator:
    return Operator(
        name=name,
        component=component,
        reads=reads,
        passes=reads,
        makes=(Activation(name=made, bytes=work.stream()),),
        weights=weights,
    )


def dropout(work: Work, name: str, source: str, made: str, component: str) -> Operator:
    """Keeps what was dropped: as numbers of the model's own kind on a CPU, else as one byte each."""
    mask = Activation(name=f"{made}.mask", bytes=work.stream(1 if work.fused else None), gradient=0)
    return Operator(
        name=name,
        component=component,
        reads=(source,),
        makes=(mask, Activation(name=made, bytes=work.stream())),
        keeps=(mask.name,),
    )
