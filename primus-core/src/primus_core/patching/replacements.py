"""The rank's own code that makes the new attribute of a patch."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from primus_core.errors import DependencyError, PrimusError, RunError
from primus_core.patching.targets import locate
from primus_core.plan import PatchSpec


def load_factory(spec: PatchSpec) -> Callable[[object], object]:
    """The factory that ``replacement`` names.

    Raises:
        DependencyError: its module cannot be imported or lacks it.
    """
    try:
        location = locate(spec.replacement)
    except PrimusError as error:
        raise _missing(spec, error.why or error.what) from error
    if not callable(location.original):
        raise _missing(spec, "there is no such function")
    return cast("Callable[[object], object]", location.original)


def make_replacement(spec: PatchSpec, factory: Callable[[object], object], original: object) -> object:
    """Call the factory; ``original`` is None for a target that is created.

    Raises:
        RunError: the factory raised or returned None.
    """
    try:
        replacement = factory(original)
    except Exception as error:
        raise RunError(f"{spec.replacement} failed", why=f"{type(error).__name__}: {error}") from error
    if replacement is None:
        raise RunError(f"{spec.replacement} returned None", why="a factory has to return the new attribute")
    return replacement


def _missing(spec: PatchSpec, why: str) -> DependencyError:
    return DependencyError(
        f"its code {spec.replacement} is missing",
        why=why,
        remedy="Install the back end in the same version in the ranks as where the plan was made.",
    )
