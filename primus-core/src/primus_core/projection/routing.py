"""Experts that are not equally busy: the rank whose experts get most tokens."""

from __future__ import annotations

from attrs import evolve

from primus_core.shape import Activation, Block, ModelShape, Operator


def routes(shape: ModelShape) -> bool:
    """Tokens travel to experts on other ranks, so that a rank may get more than others."""
    return any(operator.routed for block in shape.blocks.values() for operator in block.operators)


def unbalanced(shape: ModelShape, factor: float) -> ModelShape:
    """The same model where the experts of each rank that is looked at get so many times the mean of all ranks.

    Args:
        factor: 1 or more; its upper end is the number of expert parallel ranks, where one gets all tokens.
    """
    if factor == 1:
        return shape
    note = f"In each layer, experts of the projected rank get {factor:g} times as many tokens as those of a mean rank."
    blocks = {name: _busier(block, factor) for name, block in shape.blocks.items()}
    return evolve(shape, blocks=blocks, notes=(*shape.notes, note))


def _busier(block: Block, factor: float) -> Block:
    return evolve(block, operators=tuple(_more(one, factor) if one.routed else one for one in block.operators))


def _more(operator: Operator, factor: float) -> Operator:
    return evolve(
        operator,
        makes=tuple(_larger(made, factor) for made in operator.makes),
        scratch=round(operator.scratch * factor),
        backward_scratch=round(operator.backward_scratch * factor),
    )


def _larger(made: Activation, factor: float) -> Activation:
    gradient = None if made.gradient is None else round(made.gradient * factor)
    return evolve(made, bytes=round(made.bytes * factor), gradient=gradient)
