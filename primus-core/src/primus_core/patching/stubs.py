"""Modules that a library imports without need and that cannot be imported where another library is missing."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from attrs import frozen


@frozen(eq=False)
class StubFinder(MetaPathFinder, Loader):
    """Finds one module, and only where the library is not installed that the real one needs."""

    module: str
    library: str
    fill: Callable[[dict[str, Any]], object]
    """Puts names into the stub."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.module or self.library in sys.modules or importlib.util.find_spec(self.library):
            return None
        return ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        self.fill(vars(module))
