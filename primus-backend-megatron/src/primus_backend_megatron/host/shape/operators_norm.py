"""Norms: what they keep, and what their backward pass needs beside it."""

from __future__ import annotations

from primus_backend_megatron.host.shape.operators_work import FP32, Work
from primus_core.shape import Activation, Operator


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
    size = rows * width * work.element
    if work.fused or work.norm == "LayerNorm":
        moments = rows * FP32 * (2 if work.norm == "LayerNorm" else 1)
        return [_whole(name, source, weights, size, moments, stored)]
    return _by_operations(work, name, source, weights, rows, width)


def _whole(
    name: str, source: str, weights: tuple[str, ...], size: int, moments: int, stored: tuple[str, ...]
) -> Operator:
    """One kernel, which keeps its input and a number or two for each row."""
    return Operator(
        name=name,
        component="norm",
        reads=(source,),
        makes=(Activation(name=f"{name}.moments", bytes=moments, gradient=0), Activation(name=name, bytes=size)),
        keeps=(source, f"{name}.moments", *stored),
        weights=weights,
    )


def _by_operations(
    work: Work, name: str, source: str, weights: tuple[str, ...], rows: int, width: int
) -> list[Operator]:
    """PyTorch's own root mean square norm: it keeps a copy of its input and the normalized input, both in fp32.

    Backward, the gradient of the weight is summed from a tensor of the full size; that of the input is put together
    from two parts, one through the mean of squares, whose own steps hold three more.
    """
    size, full = rows * width * work.element, rows * width * FP32
    exact, scaled, scale = f"{name}.fp32", f"{name}.normalized", f"{name}.scale"
    operators = []
    if work.element == FP32:
        exact = source
    else:
        operators.append(_cast(name, source, exact, full))
    return [
        *operators,
        Operator(
            name=f"{name}.normalize",
            component="norm",
            reads=(exact,),
            makes=(Activation(name=scale, bytes=rows * FP32, gradient=0), Activation(name=scaled, bytes=full)),
            keeps=(exact, scale),
            scratch=full,
            backward_scratch=3 * full,
        ),
        Operator(
            name=name,
            component="norm",
            reads=(scaled,),
            makes=(Activation(name=name, bytes=size),),
            keeps=(scaled,),
            scratch=full if work.element != FP32 else 0,
            backward_scratch=2 * full - size,
            weights=weights,
        ),
    ]


def _cast(name: str, source: str, exact: str, full: int) -> Operator:
    return Operator(
        name=f"{name}.cast",
        component="norm",
        reads=(source,),
        makes=(Activation(name=exact, bytes=full),),
    )
