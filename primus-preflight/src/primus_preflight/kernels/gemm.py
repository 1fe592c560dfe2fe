"""Products of matrices: how many operations a second a device does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle

import torch

from primus_core.experiment import Value
from primus_preflight.benchmarks.products import Product
from primus_preflight.benchmarks.rows import Row, rounded
from primus_preflight.kernels.device import DTYPES
from primus_preflight.kernels.timing import Work, figures, repeat_for

_WARMUP = 5
_CACHES = 512 << 20
"""Bytes, more than the caches of any device: operands take turns, so that they come from memory as in a training."""
_MOST_COPIES = 16
_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


def gemm_rows(products: Sequence[Product], dtype: str, seconds: float, device: torch.device) -> Iterator[list[Row]]:
    """The rows of this rank, product by product. One that the device cannot do has the status ``error``."""
    for product in products:
        yield [{**_about(product, dtype), **_measured(product, dtype, seconds, device)}]


def _about(product: Product, dtype: str) -> dict[str, Value]:
    named = product.as_value()
    return {**(named if isinstance(named, dict) else {}), "dtype": dtype}


def _measured(product: Product, dtype: str, seconds: float, device: torch.device) -> Mapping[str, Value]:
    try:
        times = figures(repeat_for(work_of(product, dtype, device), device, warmup=_WARMUP, seconds=seconds))
    except (RuntimeError, NotImplementedError) as error:  # out of memory, or a type that the device does not have
        return {"status": "error", "error": str(error).strip().splitlines()[0]}
    median = float(str(times["median_us"])) / 1e6
    moved = product.elements * _BYTES[dtype]
    rates = {"tflops": rounded(product.flops / median / 1e12), "gbs": rounded(moved / median / 1e9)}
    return {**times, **rates, "status": "ok", "error": None}


def work_of(product: Product, dtype: str, device: torch.device) -> Work:
    """A function that does the product once, of operands that take turns.

    Raises:
        RuntimeError: the device has no memory for it, or cannot do it.
    """
    size = product.elements * _BYTES[dtype]
    copies = 1 if device.type == "cpu" else max(1, min(_MOST_COPIES, _CACHES // size + 1))
    make = _fp8 if dtype == "fp8" else _plain
    works = cycle([make(product, dtype, device) for _ in range(copies)])
    return lambda: next(works)()


def _plain(product: Product, dtype: str, device: torch.device) -> Work:
    left, right = (_random(shape, DTYPES[dtype], device) for shape in _stored(product))
    left, right = left.t() if product.trans_a else left, right.t() if product.trans_b else right
    out = torch.empty((product.m, product.n), dtype=DTYPES[dtype], device=device)
    return lambda: torch.mm(left, right, out=out)


def _fp8(product: Product, dtype: str, device: torch.device) -> Work:
    """With one scale for each operand and a result in bf16; hardware has it for one layout, A as it is and B^T."""
    kind = _fp8_type(device)
    left = _random((product.m, product.k), torch.float32, device).to(kind)
    right = _random((product.n, product.k), torch.float32, device).to(kind).t()
    one = torch.ones((), device=device)
    scaled: Callable[..., object] = torch._scaled_mm
    return lambda: scaled(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _fp8_type(device: torch.device) -> torch.dtype:
    """MI300's fp8 has no negative zero, a type of its own; everyone else's is that of the Open Compute Project."""
    name = torch.cuda.get_device_properties(device).gcnArchName if torch.version.hip else ""
    return torch.float8_e4m3fnuz if name.startswith("gfx94") else torch.float8_e4m3fn


def _stored(product: Product) -> tuple[tuple[int, int], tuple[int, int]]:
    left, right = (product.m, product.k), (product.k, product.n)
    return (left[::-1] if product.trans_a else left), (right[::-1] if product.trans_b else right)


def _random(shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Random values: a product of equal ones takes less power, and so is faster than any that matters."""
    return torch.randn(shape, device=device, dtype=dtype)
