"""Parts of the model for which Megatron has only a CUDA implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from primus_core.errors import ConfigError

Function = Callable[..., Any]


def norm_of_sequence_parts(original: Function) -> Function:
    """Factory for `WrappedTorchNorm.__new__`: torch's norms under sequence parallelism too.

    Each tensor-parallel rank normalizes its part of the sequence, so the gradients of the norm's weights have to be
    summed over those ranks; Megatron does that for parameters that are marked.
    """

    def make_norm(cls: type, config: Any, hidden_size: int, eps: float = 1e-5, **options: Any) -> Any:
        if not config.sequence_parallel:
            return original(cls, config, hidden_size, eps, **options)
        norm = original(cls, _without_sequence_parallel(config), hidden_size, eps, **options)
        for parameter in norm.parameters():
            parameter.sequence_parallel = True
        return norm

    return make_norm


class _View:
    """An object with some attributes replaced."""

    def __init__(self, base: object, **replaced: object) -> None:
        self.__dict__.update(replaced)
        self._base = base

    def __getattr__(self, name: str) -> object:
        return getattr(self._base, name)


def _without_sequence_parallel(config: object) -> object:
    return _View(config, sequence_parallel=False)


def sdpa_core_attention(original: Function) -> Function:
    """Factory for `LocalSpecProvider.core_attention`."""
    from primus_backend_megatron.rank.patches.attention import SdpaAttention

    def core_attention(self: object) -> type:
        return SdpaAttention

    return core_attention


def built_helpers(original: Function) -> Function:
    """Factory for `compile_helpers`: nothing to compile where the helpers are there, as in Megatron's wheels.

    Those hold the compiled module but no Makefile, and a failed `make` ends the process.
    """

    def compile_helpers() -> None:
        import importlib.util

        if importlib.util.find_spec("megatron.core.datasets.helpers_cpp") is None:
            original()

    return compile_helpers


def without_cuda(original: Function) -> Function:
    """Factory for `initialize_megatron`.

    It raises ConfigError for a save in the background: that process would import Megatron without these patches, and
    the ranks would wait for it for ever.
    """

    def initialize_megatron(*args: Any, **options: Any) -> Any:
        from megatron.training import get_args

        if get_args().async_save:
            raise ConfigError("async_save does not work on a CPU", where="async_save", remedy="Remove async_save.")
        return original(*args, **{**options, "allow_no_cuda": True})

    return initialize_megatron


def loader_with_generator(original: Function) -> Function:
    """Factory for `build_pretraining_data_loader`: a loader with a generator of its own, that pins no memory.

    A loader without one takes a number from the CPU's generator when it starts, also after a resume. On a GPU that
    does not touch dropout, which uses the device's generator.
    """

    def build_pretraining_data_loader(*args: Any, **options: Any) -> Any:
        import torch

        loader = original(*args, **options)
        if isinstance(loader, torch.utils.data.DataLoader):
            loader.generator, loader.pin_memory = torch.Generator(), False
        return loader

    return build_pretraining_data_loader
