"""Attention: the kernels that torch has for a shape, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from primus_core.experiment import Value
from primus_preflight.benchmarks.rows import Row, rounded
from primus_preflight.kernels.device import DTYPES
from primus_preflight.kernels.timing import Work, figures, repeat_for

_KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
_NONE = ("No viable backend", "No available kernel")
"""What torch says where a kernel does not fit device, type or shape."""
_WARMUP = 3
_BACKWARD = 2.5
"""Operations of the backward pass for each one forward: five products of that size instead of two."""


def attention_rows(
    shapes: list[Mapping[str, Any]], kernels: list[str], dtype: str, seconds: float, device: torch.device
) -> Iterator[list[Row]]:
    """The rows of this rank, shape by shape and kernel by kernel.

    Args:
        kernels: each has to be there; empty: those that there are for a shape.
    """
    for shape in shapes:
        for kernel in kernels or _KERNELS:
            rows = list(_rows(shape, kernel, dtype, seconds, device))
            yield [row for row in rows if kernels or row["status"] != "unavailable"]


def flops_of(shape: Mapping[str, Any]) -> float:
    """Of the forward pass: two products of ``[seqlen, head_dim] x [head_dim, seqlen]`` for each head; half of it where
    no position looks at those after it."""
    batch, heads, length, width = (int(shape[name]) for name in ("batch", "heads", "seqlen", "head_dim"))
    return 4.0 * batch * heads * length**2 * width / (2 if shape["causal"] else 1)


def _rows(shape: Mapping[str, Any], kernel: str, dtype: str, seconds: float, device: torch.device) -> Iterator[Row]:
    about: dict[str, Value] = {"kernel": kernel, **shape, "dtype": dtype}
    try:
        phases = _phases(shape, dtype, device)
        with sdpa_kernel(_KERNELS[kernel]):
            for phase, (prepare, work, flops) in phases.items():
                prepare()
                times = figures(repeat_for(work, device, warmup=_WARMUP, seconds=seconds))
                rate = rounded(flops / (float(str(times["median_us"])) / 1e6) / 1e12)
                yield {**about, "phase": phase, **times, "tflops": rate, "status": "ok", "error": None}
    except RuntimeError as error:
        text = str(error).strip().splitlines()[0]
        if any(words in text for words in _NONE):
            yield {**about, "phase": "forward", "status": "unavailable", "error": "the device has none for this shape"}
        else:
            yield {**about, "phase": "forward", "status": "error", "error": text}


def _phases(
    shape: Mapping[str, Any], dtype: str, device: torch.device
) -> Mapping[str, tuple[Callable[[], object], Work, float]]:
    """Of each phase what has to come before, the work, and its operations."""
    batch, length, width = shape["batch"], shape["seqlen"], shape["head_dim"]
    kinds = (shape["heads"], shape["kv_heads"], shape["kv_heads"])
    query, key, value = (
        torch.randn(batch, heads, length, width, dtype=DTYPES[dtype], device=device, requires_grad=True)
        for heads in kinds
    )
    results: list[torch.Tensor] = []

    def forward() -> torch.Tensor:
        grouped = shape["heads"] != shape["kv_heads"]
        return scaled_dot_product_attention(query, key, value, is_causal=shape["causal"], enable_gqa=grouped)

    def prepare() -> None:
        results[:] = [forward()]
        results.append(torch.randn_like(results[0]))

    def backward() -> object:
        return torch.autograd.grad(results[0], (query, key, value), results[1], retain_graph=True)

    flops = flops_of(shape)
    return {"forward": (lambda: None, forward, flops), "backward": (prepare, backward, _BACKWARD * flops)}
