"""Hashes that tell whether a patch's target is still the code that the patch was written for."""

from __future__ import annotations

import inspect
import sys
from hashlib import sha256
from typing import Any

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from primus_core.discovery.versions import installed_version
from primus_core.patching.targets import Location, locate

_PLAIN = (bool, int, float, str, bytes, tuple, type(None))


def fingerprint(target: object, library_version: str) -> str:
    """SHA-256, in hexadecimal, of a target's source text.

    Where there is no Python source (builtins, plain values) the qualified name or value, the docstring and the
    public part of the library's version take its place (``2.13.0`` of ``2.13.0+cpu``: builds share one fingerprint).
    """
    try:
        text = inspect.getsource(_code_of(target))
    except (TypeError, OSError):
        text = f"{_name_of(target)}\n{_doc_of(target)}\n{public_version(library_version)}"
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def fingerprint_target(target: str, requires: str = "") -> str:
    """The fingerprint of ``module:qualified.name`` as it is in this process; what a back end's tool writes down."""
    location = locate(target)
    return fingerprint(location.original, library_version(location, requires))


def library_version(location: Location, requires: str) -> str:
    """Version of the distribution that ``requires`` names, else what the top-level package says of itself."""
    if requires:
        return installed_version(Requirement(requires).name) or ""
    return str(getattr(sys.modules.get(location.library), "__version__", ""))


def public_version(version: str) -> str:
    """``2.13.0+cpu`` -> ``2.13.0``; text that is no version stays."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version


def _code_of(target: object) -> Any:
    if isinstance(target, staticmethod | classmethod):
        return target.__func__
    return target.fget if isinstance(target, property) else target


def _name_of(target: object) -> str:
    if isinstance(target, _PLAIN):
        return repr(target)
    return str(getattr(target, "__qualname__", type(target).__qualname__))


def _doc_of(target: object) -> object:
    return None if isinstance(target, _PLAIN) else getattr(target, "__doc__", None)
