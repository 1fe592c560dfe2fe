"""How many bytes of tensors live at a time, whether they are real, fake or on the meta device."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Watch = Callable[[str, int, int], None]


class Live(TorchDispatchMode):  # type: ignore[misc]  # torch has no types for it
    """Counts each storage from the operation that makes it until Python and autograd have let go of it.

    Args:
        watch: called with the name of each operation, the bytes that live after it and the most during it.
    """

    def __init__(self, watch: Watch | None = None) -> None:
        super().__init__()
        self.current = self.peak = 0
        self.at = ""
        """The operation after which the most lived."""
        self._sizes: dict[int, int] = {}
        self._alive: dict[int, Any] = {}
        self.lasting = self.beneath = 0
        """Of what lived at the last restart, the bytes that live still, and those that did at the peak."""
        self._before: set[int] = set()
        self._emptied: set[int] = set()
        self._watch = watch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.see(leaf.untyped_storage())
        self.look(str(func))
        return result

    def see(self, storage: Any) -> None:
        """Count a storage, or its new size."""
        key = id(storage)
        known = self._alive.get(key)
        if known is None or known() is not storage:
            self._alive[key] = weakref.ref(storage, lambda _: self._gone(key))
            self._sizes[key] = 0
            self._emptied.discard(key)
        if key in self._emptied:
            return
        grown = storage.nbytes() - self._sizes[key]
        self.current += grown
        self.lasting += grown if key in self._before else 0
        self._sizes[key] = storage.nbytes()

    def empty(self, storage: Any) -> None:
        """From now on a storage has no bytes of its own: a view of a tensor without values gives it its size again."""
        storage.resize_(0)
        self.see(storage)
        self._emptied.add(id(storage))

    def look(self, name: str) -> None:
        """Note the peak after something of this name."""
        if self.current > self.peak:
            self.peak, self.at, self.beneath = self.current, name, self.lasting
        if self._watch:
            self._watch(name, self.current, self.peak)

    def restart(self) -> int:
        """Forget the peak so far; the bytes that live now."""
        self.peak, self.at = self.current, ""
        self.lasting = self.beneath = self.current
        self._before = {key for key, size in self._sizes.items() if size}
        return self.current

    def largest(self, count: int = 20) -> list[int]:
        """Sizes of the largest storages that live."""
        return sorted(self._sizes.values(), reverse=True)[:count]

    def _gone(self, key: int) -> None:
        size = self._sizes.pop(key, 0)
        self.current -= size
        if key in self._before:
            self._before.remove(key)
            self.lasting -= size
        self._alive.pop(key, None)
        self._emptied.discard(key)
