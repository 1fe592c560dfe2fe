"""Modules that TorchTitan imports and that are missing on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from importlib.abc import MetaPathFinder
from typing import Any

from primus_core.patching.stubs import StubFinder

_KERNELS = "torchtitan.distributed.minimal_async_ep.kernels"


def finder_of_stubs(original: list[MetaPathFinder]) -> list[MetaPathFinder]:
    """Factory: an import path on which the Triton kernels of the minimal asynchronous dispatcher can be imported."""
    return [StubFinder(_KERNELS, "triton", _fill), *original]


def _fill(names: dict[str, Any]) -> None:
    names["__getattr__"] = _kernel


def _kernel(name: str) -> Callable[..., None]:
    """Any kernel: it can be imported, and says what is missing when it is called."""
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*args: object, **options: object) -> None:
        raise RuntimeError(f"{name} needs Triton, which is not installed")

    return absent
