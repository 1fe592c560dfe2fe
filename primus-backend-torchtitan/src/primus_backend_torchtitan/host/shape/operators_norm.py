"""Root mean square norms: what they keep, and what their backward pass needs beside it."""

from __future__ import annotations

from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_core.operators import Norm
from primus_core.shape import Operator


def norm(work: Work, name: str, source: str, made: str, rows: int = 0, width: int = 0) -> list[Operator]:
    """Normalizes an activation with the weight ``name.weight``.

    Args:
        rows: that are normalized each by itself; 0: this rank's tokens.
        width: features of each; 0: the hidden size.
    """
    rows, width = rows or work.own_tokens, width or work.hidden
    told = Norm(name=name, source=source, made=made, rows=rows, width=width, weights=(f"{name}.weight",))
    return [told.whole(work.element)] if work.fused else told.by_operations(work.element)
