"""Where a module lies, found without importing it or its parents."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pkgutil import get_importer


def find_module(name: str) -> ModuleSpec | None:
    """The spec of a dotted module name; None where there is no such file."""
    top, *rest = name.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    path = top
    for part in rest:
        path = f"{path}.{part}"
        spec = _find_in((spec and spec.submodule_search_locations) or (), path)
    return spec


def _find_in(folders: Iterable[str], name: str) -> ModuleSpec | None:
    """The module in the first folder that has it, else the folders of its name together.

    ``PathFinder`` does the same, but asks the imported parent where it lies when a folder has no ``__init__.py``.
    """
    portions: list[str] = []
    for folder in folders:
        finder = get_importer(folder)
        spec = finder.find_spec(name) if finder else None
        if spec and spec.loader:
            return spec
        portions += (spec and spec.submodule_search_locations) or ()
    if not portions:
        return None
    namespace = ModuleSpec(name, None, is_package=True)
    namespace.submodule_search_locations = portions
    return namespace
