"""Names and modules that Megatron imports and that are missing here."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")

_KERNELS = "megatron.core.transformer.moe.ops.paged_stash"


def typing_override(original: None) -> Callable[[T], T]:
    """Factory: `typing.override` as Python 3.12 has it, less the mark on the function that nobody reads."""

    def override(method: T, /) -> T:
        return method

    return override


def finder_of_stubs(original: list[MetaPathFinder]) -> list[MetaPathFinder]:
    """Factory: an import path on which Megatron's Triton kernels of the paged MoE stash can be imported.

    Megatron imports them for every model and calls them only with ``moe_paged_stash``.
    """
    return [PagedStashStub(), *original]


class PagedStashStub(MetaPathFinder, Loader):
    """Finds the one module, and only where there is no Triton to compile the real one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _KERNELS or "triton" in sys.modules or importlib.util.find_spec("triton"):
            return None
        return ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        names: dict[str, Any] = vars(module)
        names.update(GLOBAL_BLOCK_SIZE=1024, paged_stash_copy_kernel=_absent, paged_stash_pop_kernel=_absent)


def _absent(*args: object, **options: object) -> None:
    raise RuntimeError("moe_paged_stash needs Triton, which is not installed")
