"""How many bytes of tensors live at a time while TorchTitan trains, whether they are real, fake or on no device."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Watch = Callable[[str, int, int], None]
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class Live(TorchDispatchMode):  # type: ignore[misc]  # torch has no types for it
    """Counts each storage from the operation that makes it until Python and autograd have let go of it.

    What a distributed tensor does is seen tensor by tensor, and so are FSDP's own changes of a storage's size.

    Args:
        watch: called with the name of each operation, the bytes that live after it and the most so far.
    """

    def __init__(self, watch: Watch | None = None) -> None:
        super().__init__()
        self.current = self.peak = 0
        self.at = ""
        """The operation after which the most lived."""
        self._sizes: dict[int, int] = {}
        self._alive: dict[int, Any] = {}
        self._watch = watch
        self._resizing: Any = None

    def __enter__(self) -> Any:
        original = torch.UntypedStorage.resize_

        def resize(storage: Any, size: int) -> Any:
            result = original(storage, size)
            self.see(storage)
            self._look("resize_")
            return result

        self._resizing = mock.patch.object(torch.UntypedStorage, "resize_", resize)
        self._resizing.start()
        return super().__enter__()

    def __exit__(self, *error: Any) -> Any:
        self._resizing.stop()
        return super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from torch._subclasses.fake_tensor import FakeTensor

        if any(kind not in (*_PLAIN, FakeTensor) for kind in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.see(leaf.untyped_storage())
        self._look(str(func))
        return result

    def see(self, storage: Any) -> None:
        """Count a storage, or its new size."""
        key = id(storage)
        known = self._alive.get(key)
        if known is None or known() is not storage:
            self._alive[key] = weakref.ref(storage, lambda _: self._gone(key))
            self._sizes[key] = 0
        self.current += storage.nbytes() - self._sizes[key]
        self._sizes[key] = storage.nbytes()

    def restart(self) -> int:
        """Forget the peak so far; the bytes that live now."""
        self.peak, self.at = self.current, ""
        return self.current

    def _look(self, name: str) -> None:
        if self.current > self.peak:
            self.peak, self.at = self.current, name
        if self._watch:
            self._watch(name, self.current, self.peak)

    def _gone(self, key: int) -> None:
        self.current -= self._sizes.pop(key, 0)
        self._alive.pop(key, None)
