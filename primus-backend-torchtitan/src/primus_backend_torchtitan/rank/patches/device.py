"""A CPU as TorchTitan's device."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any


def device_type(original: str) -> str:
    """Factory."""
    return "cpu"


def device_module(original: ModuleType) -> ModuleType:
    """Factory: `torch.cpu` with what TorchTitan asks of a device beside."""
    import torch

    module = ModuleType("primus_cpu")
    vars(module).update({name: value for name, value in vars(torch.cpu).items() if not name.startswith("__")})
    vars(module).update(
        current_device=lambda: 0,
        device_count=lambda: 1,
        empty_cache=_nothing,
        get_device_name=lambda device=None: "cpu",
        get_device_properties=lambda device=None: SimpleNamespace(name="cpu", total_memory=_memory()),
        memory=SimpleNamespace(_record_memory_history=_nothing, _snapshot=dict),
        memory_stats=_memory_stats,
        reset_peak_memory_stats=_nothing,
        set_device=_nothing,
        synchronize=_nothing,
    )
    return module


def get_peak_flops(original: Callable[[str], float]) -> Callable[[str], float]:
    """Factory: infinite, so that TorchTitan's own log says a utilization of 0; the rows of metrics have none."""

    def peak(device_name: str) -> float:
        return float("inf")

    return peak


def _nothing(*args: object, **options: object) -> None:
    """What has no meaning on a CPU."""


def _memory() -> int:
    """Bytes of this host."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _memory_stats(device: Any = None) -> dict[str, int]:
    """The process's largest resident set, for each of a device allocator's peaks."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    peaks = dict.fromkeys(("active_bytes.all.peak", "reserved_bytes.all.peak"), peak)
    return {**peaks, "num_alloc_retries": 0, "num_ooms": 0}
