"""Norms: what they keep, and what their backward pass needs beside it."""

from __future__ import annotations

from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.operators import Norm
from primus_core.shape import Operator


def norm(
    work: Work,
    name: str,
    source: str,
    weights: tuple[str, ...],
    rows: int = 0,
    width: int = 0,
    stored: tuple[str, ...] = (),
) -> list[Operator]:
    """Makes the activation ``name`` of ``source``.

    Args:
        rows: that are normalized each by itself; 0: this rank's tokens.
        width: features of each; 0: the hidden size.
        stored: activations that hold the source, where it is a part of them.
    """
    rows, width = rows or work.own_tokens, width or work.hidden
    made = Norm(name=name, source=source, made=name, rows=rows, width=width, weights=weights, stored=stored)
    if work.norm == "LayerNorm":
        return [made.whole(work.element, moments=2)]
    return [made.whole(work.element)] if work.fused else made.by_operations(work.element)
