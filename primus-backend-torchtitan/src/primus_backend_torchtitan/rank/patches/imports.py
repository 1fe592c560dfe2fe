"""Modules that TorchTitan imports and that are missing on a CPU."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_KERNELS = "torchtitan.distributed.minimal_async_ep.kernels"


def finder_of_stubs(original: list[MetaPathFinder]) -> list[MetaPathFinder]:
    """Factory: an import path on which the Triton kernels of the minimal asynchronous dispatcher can be imported."""
    return [KernelsStub(), *original]


class KernelsStub(MetaPathFinder, Loader):
    """Finds the one module, and only where there is no Triton to compile the real one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _KERNELS or "triton" in sys.modules or importlib.util.find_spec("triton"):
            return None
        return ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__getattr__"] = _kernel


def _kernel(name: str) -> Callable[..., None]:
    """Any kernel: it can be imported, and says what is missing when it is called."""
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*args: object, **options: object) -> None:
        raise RuntimeError(f"{name} needs Triton, which is not installed")

    return absent
