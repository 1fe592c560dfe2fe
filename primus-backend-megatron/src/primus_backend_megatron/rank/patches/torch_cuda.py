"""`torch.cuda` answered by the CPU. `torch.cuda.is_available` is left alone: it stays False."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch

CPU = torch.device("cpu")
Function = Callable[..., Any]


class Stream:
    """A queue of work on a device that has finished every operation when it returns."""

    cuda_stream = 0
    device = CPU

    def __init__(self, *args: object, **options: object) -> None:
        pass

    def wait_stream(self, stream: object) -> None:
        pass

    def wait_event(self, event: object) -> None:
        pass

    def record_event(self, event: Event | None = None) -> Event:
        return event or Event()

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return (0, 0)


class Event:
    """A point in a stream that is always past."""

    def record(self, stream: object = None) -> None:
        pass

    def wait(self, stream: object = None) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True


def nothing(original: Function) -> Function:
    """Factory: a function that has nothing to do on a CPU."""

    def no_effect(*args: object, **options: object) -> None:
        return None

    return no_effect


def identity_compile(original: Function) -> Function:
    """Factory: `torch.compile`, as a call or as a decorator, that leaves functions as they are."""

    def compile(model: Function | None = None, *args: object, **options: object) -> Any:
        return model if model is not None else (lambda function: function)

    return compile


def current_device(original: Function) -> Function:
    """Factory: the CPU, as a device, which every ``device=`` and ``Tensor.to`` takes."""

    def current_device() -> torch.device:
        return CPU

    return current_device


def device_count(original: Function) -> Function:
    """Factory: one device for each rank; Megatron sets up its process groups only where there is one."""

    def device_count() -> int:
        return 1

    return device_count


def device_properties(original: Function) -> Function:
    """Factory: what Megatron asks to choose kernels: none of them is for a CPU."""

    def get_device_properties(device: object = None) -> SimpleNamespace:
        return SimpleNamespace(name="cpu", major=0, minor=0, total_memory=0, multi_processor_count=1)

    return get_device_properties


def stream_class(original: type) -> type[Stream]:
    """Factory."""
    return Stream


def current_stream(original: Function) -> Function:
    """Factory: the only stream."""
    only = Stream()

    def current_stream(device: object = None) -> Stream:
        return only

    return current_stream


def call_now(original: Function) -> Function:
    """Factory: `_lazy_call`, which else waits for a CUDA start-up that never comes."""

    def _lazy_call(callback: Callable[[], None], **options: object) -> None:
        callback()

    return _lazy_call


def get_rng_state(original: Function) -> Function:
    """Factory: the CPU's generator is the device's."""

    def get_rng_state(device: object = None) -> torch.Tensor:
        return torch.default_generator.get_state()

    return get_rng_state


def set_rng_state(original: Function) -> Function:
    """Factory: see `get_rng_state`."""

    def set_rng_state(state: torch.Tensor, device: object = None) -> None:
        torch.default_generator.set_state(state)

    return set_rng_state


def manual_seed(original: Function) -> Function:
    """Factory: see `get_rng_state`."""

    def manual_seed(seed: int) -> None:
        torch.default_generator.manual_seed(int(seed))

    return manual_seed


class Generators:
    """`torch.cuda.default_generators` with the one generator under every index."""

    def __getitem__(self, index: object) -> torch.Generator:
        return torch.default_generator


def default_generators(original: tuple[()]) -> Generators:
    """Factory: see `get_rng_state`."""
    return Generators()


def quiet_fork(original: Function) -> Function:
    """Factory for `CudaRNGStatesTracker.fork`: the same, without a look at the CPU's generator.

    Megatron warns when that changed meanwhile, which here it must.
    """

    @contextlib.contextmanager
    def fork(self: Any, name: str = "model-parallel-rng") -> Iterator[None]:
        if name not in self.states_:
            raise KeyError(f"random state {name} was not added")
        outer, state = self._current_state_name, torch.cuda.get_rng_state()
        if outer != "default-rng":
            self.states_[outer] = state
        torch.cuda.set_rng_state(self.states_[name])
        self._current_state_name = name
        try:
            yield
        finally:
            self.states_[name] = torch.cuda.get_rng_state()
            torch.cuda.set_rng_state(state if outer == "default-rng" else self.states_[outer])
            self._current_state_name = outer

    return fork
