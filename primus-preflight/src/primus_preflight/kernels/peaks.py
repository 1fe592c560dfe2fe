"""What the figures of a device are compared with."""

from __future__ import annotations

import torch

from primus_core.hardware import find_model
from primus_preflight.benchmarks.products import Product
from primus_preflight.benchmarks.rows import Peak
from primus_preflight.kernels.device import device_name
from primus_preflight.kernels.gemm import work_of
from primus_preflight.kernels.timing import repeat_for

_SIDES = {"cuda": (4096, 8192), "cpu": (256, 512, 1024)}
_SECONDS = {"cuda": 0.2, "cpu": 0.05}


def compute_peak(dtype: str, device: torch.device) -> Peak | None:
    """TFLOP/s of the device in a type: as its maker specifies it, else the best of large square products here.

    None: it can do no product of this type.
    """
    specified = _specified(dtype, device_name(device))
    if specified is not None:
        return Peak(value=specified, source="specified")
    try:
        return Peak(value=max(_measured(side, dtype, device) for side in _SIDES[device.type]), source="measured")
    except (RuntimeError, NotImplementedError):
        return None


def link_peak(device: torch.device, ranks_per_node: int, nodes: int) -> Peak | None:
    """GB/s in one direction that a device's links to others of its host have; None where others set the limit."""
    model = find_model(device_name(device)) if device.type == "cuda" and ranks_per_node > 1 and nodes == 1 else None
    return Peak(value=model.link_gbs / 2, source="specified") if model else None


def _specified(dtype: str, name: str) -> float | None:
    model = find_model(name)
    if model is None:
        return None
    return {"fp32": model.fp32_tflops, "fp8": model.fp8_tflops}.get(dtype, model.bf16_tflops)


def _measured(side: int, dtype: str, device: torch.device) -> float:
    product = Product(m=side, n=side, k=side, trans_b=True)
    times = repeat_for(work_of(product, dtype, device), device, warmup=2, seconds=_SECONDS[device.type])
    return product.flops / min(times) / 1e12
