"""Find the attribute that a patch replaces, the way Python stores it."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

from attrs import frozen

from primus_core.errors import DependencyError, PrimusError, RunError

ABSENT: object = object()
"""Stands for an attribute that does not exist."""


@frozen(kw_only=True)
class Location:
    """One attribute of a module, a class or an object."""

    module: ModuleType
    owner: object
    name: str
    own: bool
    """The owner itself holds it; False: it is inherited, computed or absent."""
    stored: object
    """What the owner's dictionary holds, such as a `staticmethod` object; `ABSENT` for nothing."""

    @property
    def exists(self) -> bool:
        return self.stored is not ABSENT

    @property
    def original(self) -> object:
        """What a replacement's factory is given: the function inside a static or class method."""
        return self.stored.__func__ if isinstance(self.stored, staticmethod | classmethod) else self.stored

    @property
    def library(self) -> str:
        """Name of the top-level package."""
        return self.module.__name__.partition(".")[0]

    def wrap(self, replacement: object) -> object:
        """Store a plain function as the static or class method that it replaces."""
        for kind in (staticmethod, classmethod):
            if isinstance(self.stored, kind) and not isinstance(replacement, kind):
                return kind(replacement)  # type: ignore[arg-type]  # any callable: the factory answers for it
        return replacement

    def current(self) -> object:
        """What is stored there now."""
        return stored_attribute(self.owner, self.name)

    def put(self, value: object) -> None:
        setattr(self.owner, self.name, value)

    def restore(self) -> None:
        """Make the owner look as it did when it was located."""
        if self.own:
            setattr(self.owner, self.name, self.stored)
        elif self.name in own_names(self.owner):
            delattr(self.owner, self.name)


def locate(target: str) -> Location:
    """Import the module of ``module:qualified.name`` and walk to the attribute, which may be absent.

    Raises:
        DependencyError: the module cannot be imported.
        RunError: the target is misspelt, or what should hold the attribute does not exist.
    """
    module_name, separator, path = target.partition(":")
    if not separator or not path:
        raise RunError(f"{target!r} is not module:qualified.name")
    module = import_module(module_name)
    *parents, name = path.split(".")
    owner: object = module
    for parent in parents:
        if not hasattr(owner, parent):
            raise RunError(f"{target} does not exist", why=f"{owner!r} has no {parent!r}")
        owner = getattr(owner, parent)
    return Location(
        module=module, owner=owner, name=name, own=name in own_names(owner), stored=stored_attribute(owner, name)
    )


def import_module(name: str) -> ModuleType:
    """Import a module; whatever it raises is told in one line.

    Raises:
        DependencyError: the import failed.
    """
    try:
        return importlib.import_module(name)
    except PrimusError:
        raise
    except Exception as error:
        raise DependencyError(f"module {name} cannot be imported", why=f"{type(error).__name__}: {error}") from error


def stored_attribute(owner: object, name: str) -> object:
    """The attribute without binding it; a module's lazy ``__getattr__`` is asked last."""
    stored = inspect.getattr_static(owner, name, ABSENT)
    if stored is ABSENT and isinstance(owner, ModuleType):
        return getattr(owner, name, ABSENT)
    return stored


def own_names(owner: object) -> frozenset[str]:
    return frozenset(vars(owner)) if hasattr(owner, "__dict__") else frozenset()
