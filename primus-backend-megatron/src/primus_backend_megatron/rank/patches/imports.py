"""Names and modules that Megatron imports and that are missing here."""

from __future__ import annotations

from collections.abc import Callable
from importlib.abc import MetaPathFinder
from typing import Any, TypeVar

from primus_core.patching.stubs import StubFinder

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
    return [StubFinder(_KERNELS, "triton", _fill), *original]


def _fill(names: dict[str, Any]) -> None:
    names.update(GLOBAL_BLOCK_SIZE=1024, paged_stash_copy_kernel=_absent, paged_stash_pop_kernel=_absent)


def _absent(*args: object, **options: object) -> None:
    raise RuntimeError("moe_paged_stash needs Triton, which is not installed")
