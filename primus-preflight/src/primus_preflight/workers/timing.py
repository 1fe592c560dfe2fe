"""How long work takes on a device."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def timed(work: Callable[[], object], device: torch.device) -> float:
    """Seconds from the start of the work to its end on the device, by the device's own events where it has some."""
    if device.type != "cuda":
        began = time.perf_counter()
        work()
        return time.perf_counter() - began
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3
