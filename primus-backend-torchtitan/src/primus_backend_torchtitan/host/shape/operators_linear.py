"""Products with weights that tensor parallel ranks divide, and the collectives before and after them."""

from __future__ import annotations

from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_core.shape import Activation, Operator


def product(
    work: Work,
    name: str,
    source: str,
    made: str,
    width: int,
    *,
    inner: int,
    component: str,
    biased: bool = False,
    holds: tuple[str, ...] = (),
    divided: bool = True,
) -> Operator:
    """With the weight ``name.weight``: so many features of each token.

    Args:
        width: features that this rank makes.
        inner: features that it reads.
        divided: tensor parallel ranks share the features; else each makes all of them.
    """
    flops = 2 * work.tokens * work.context * inner * width
    return Operator(
        name=name,
        component=component,
        reads=(source,),
        makes=(Activation(name=made, bytes=work.wide(width)),),
        keeps=(source,),
        holds=holds,
        weights=(f"{name}.weight", *((f"{name}.bias",) if biased else ())),
        flops=flops * (work.tensor if divided else 1),
        hardware_flops=flops * work.tensor,
    )


def gathered(work: Work, source: str, component: str) -> tuple[list[Operator], str]:
    """All tokens, where each rank has normalized its own alone; the name of what is multiplied then.

    They arrive rank by rank and are put in order in a copy; so is the gradient, before it is summed over the ranks.
    """
    if not work.sequence_parallel:
        return [], source
    made = f"{source}.gathered"
    gather = Operator(
        name=made,
        component=component,
        reads=(source,),
        makes=(Activation(name=made, bytes=work.whole),),
        scratch=work.whole,
        backward_scratch=work.whole,
    )
    return [gather], made


def summed(work: Work, source: str, made: str, component: str, holds: tuple[str, ...] = ()) -> list[Operator]:
    """The sum over tensor parallel ranks of what each has made of its features."""
    if work.tensor == 1:
        return []
    return [
        Operator(
            name=f"{made}.sum",
            component=component,
            reads=(source,),
            makes=(Activation(name=made, bytes=work.stream()),),
            passes=() if work.sequence_parallel else (source,),
            holds=holds,
            scratch=work.whole if work.sequence_parallel else 0,
            backward_scratch=work.whole if work.sequence_parallel else 0,
        )
    ]


def add(
    work: Work, name: str, branch: str, residual: str, made: str, component: str, holds: tuple[str, ...] = ()
) -> Operator:
    """The branch is added to the residual stream."""
    return Operator(
        name=name,
        component=component,
        reads=(branch, residual),
        passes=(branch, residual),
        makes=(Activation(name=made, bytes=work.stream()),),
        holds=holds,
    )
