"""Root mean square norms: what they keep, and what their backward pass needs beside it."""

from __future__ import annotations

from primus_backend_torchtitan.host.shape.operators_work import FP32, Work
from primus_core.shape import Activation, Operator


def norm(
    work: Work, name: str, source: str, made: str, rows: int = 0, width: int = 0, stored: tuple[str, ...] = ()
) -> list[Operator]:
    """Normalizes an activation with the weight ``name.weight``.

    Args:
        rows: that are normalized each by itself; 0: this rank's tokens.
        width: features of each; 0: the hidden size.
        stored: activations that hold the source, where it is a part of them.
    """
    rows, width = rows or work.own_tokens, width or work.hidden
    if work.fused:
        return [_kernel(work, name, source, made, rows, width, stored)]
    return _by_operations(work, name, source, made, rows, width, stored)


def _kernel(work: Work, name: str, source: str, made: str, rows: int, width: int, stored: tuple[str, ...]) -> Operator:
    """One kernel, which keeps its input and a number for each row."""
    scale = Activation(name=f"{made}.scale", bytes=rows * FP32, gradient=0)
    return Operator(
        name=name,
        component="norm",
        reads=(source,),
        makes=(scale, Activation(name=made, bytes=rows * width * work.element)),
        keeps=(source, scale.name, *stored),
        weights=(f"{name}.weight",),
    )


def _by_operations(
    work: Work, name: str, source: str, made: str, rows: int, width: int, stored: tuple[str, ...]
) -> list[Operator]:
    """Operation by operation it keeps its input and the normalized input, both in fp32.

    Backward, the gradient of the weight is summed from a tensor of the full size; that of the input is put together
    from two parts, one through the mean of squares, whose own steps hold three more.
    """
    size, full, narrow = rows * width * work.element, rows * width * FP32, work.element != FP32
    exact, scaled, scale = f"{made}.fp32" if narrow else source, f"{made}.normalized", f"{made}.scale"
    cast = Operator(name=f"{name}.cast", component="norm", reads=(source,), makes=(Activation(name=exact, bytes=full),))
    return [
        *((cast,) if narrow else ()),
        Operator(
            name=f"{name}.normalize",
            component="norm",
            reads=(exact,),
            makes=(
                Activation(name=scale, bytes=rows * FP32, gradient=0),
                Activation(name=scaled, bytes=full),
            ),
            keeps=(exact, scale, *(() if narrow else stored)),
            scratch=full,
            backward_scratch=3 * full,
        ),
        Operator(
            name=name,
            component="norm",
            reads=(scaled,),
            makes=(Activation(name=made, bytes=size),),
            keeps=(scaled,),
            scratch=full if narrow else 0,
            backward_scratch=2 * full - size if narrow else full,
            weights=(f"{name}.weight",),
        ),
    ]
