"""Words for TorchTitan's tensors: which dimension tensor parallel ranks divide."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.shape import DType, Group, Parameter

DTYPES: Mapping[object, DType] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
"""The short names of TorchTitan's formats."""


def columns(name: str, incoming: int, outgoing: int, dtype: DType, *, bias: bool = False) -> tuple[Parameter, ...]:
    """A linear layer whose outputs are divided."""
    return _linear(name, incoming, outgoing, dtype, ("tensor",), ("tensor",), bias)


def rows(name: str, incoming: int, outgoing: int, dtype: DType) -> tuple[Parameter, ...]:
    """A linear layer whose inputs are divided."""
    return _linear(name, incoming, outgoing, dtype, (None, "tensor"), (), False)


def whole(name: str, shape: tuple[int, ...], dtype: DType) -> Parameter:
    """A tensor that every tensor parallel rank holds."""
    return Parameter(name=name, shape=shape, dtype=dtype)


def _linear(
    name: str,
    incoming: int,
    outgoing: int,
    dtype: DType,
    axes: tuple[Group | None, ...],
    of_bias: tuple[Group | None, ...],
    bias: bool,
) -> tuple[Parameter, ...]:
    weight = Parameter(name=f"{name}.weight", shape=(outgoing, incoming), dtype=dtype, axes=axes)
    if not bias:
        return (weight,)
    return weight, Parameter(name=f"{name}.bias", shape=(outgoing,), dtype=dtype, axes=of_bias)
