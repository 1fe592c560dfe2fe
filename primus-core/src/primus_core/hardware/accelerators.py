"""Peak arithmetic rates and memory of accelerators, by the name that the device reports."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Literal

from primus_core.records import frozen

Precision = Literal["bf16", "fp32"]


@frozen(kw_only=True)
class AcceleratorModel:
    """Published figures of one model, without sparsity, and its memory."""

    model: str
    names: tuple[str, ...]
    """Parts of the device names that identify the model."""
    memory_gib: float
    """Memory of a device as PyTorch tells it (``total_memory``), in units of 2**30 bytes: what the driver keeps for
    itself and for error correction is away. Of drivers that tell different sizes, the smallest that was seen in public
    messages of PyTorch's allocator: "GPU 0 has a total capacity of 139.72 GiB" (an H200). MI350X: as the MI355X, which
    has the same memory."""
    bf16_tflops: float
    """Peak of matrix operations in bfloat16 (and float16), TFLOP/s a device."""
    fp32_tflops: float
    """Peak of operations in float32 without reduced-precision formats, TFLOP/s a device."""
    fp8_tflops: float | None
    """Peak of matrix operations in 8-bit floating point, TFLOP/s a device; None: it has none."""
    fp4_tflops: float | None
    """The same in 4 bits."""
    memory_gbs: float
    """Peak of its memory's bandwidth, 1e9 bytes a second."""
    link_gbs: float
    """Of all its links to other devices of its host (of its rack, for GB200), both directions together, 1e9 bytes a
    second."""
    host_gbs: float
    """Of its link to the host's processor, both directions together, 1e9 bytes a second."""
    source: str


@cache
def accelerator_models() -> tuple[AcceleratorModel, ...]:
    """Every model of the data file."""
    rows = json.loads((Path(__file__).parent / "accelerators.json").read_text(encoding="utf-8"))
    return tuple(AcceleratorModel(model=model, **{**row, "names": tuple(row["names"])}) for model, row in rows.items())


def find_model(device_name: str) -> AcceleratorModel | None:
    """The model of a device by its reported name (``AMD Instinct MI300X``); None for one that is not in the file."""
    return next((model for model in accelerator_models() if _is_named(model, device_name)), None)


def peak_flops(device_name: str, precision: Precision) -> float | None:
    """Peak rate of a device in FLOP/s; None where it is not known, so that no utilization is made up."""
    model = find_model(device_name)
    if model is None:
        return None
    return (model.bf16_tflops if precision == "bf16" else model.fp32_tflops) * 1e12


def _is_named(model: AcceleratorModel, device_name: str) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", device_name) for name in model.names)
