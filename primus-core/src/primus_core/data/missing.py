"""The error for a library of the extra ``primus-core[data]`` that is not there."""

from __future__ import annotations

from primus_core.errors import DependencyError


def missing_library(name: str, error: ImportError) -> DependencyError:
    """What to raise when a library cannot be imported."""
    return DependencyError(f"the library {name} is missing", why=str(error), remedy='pip install "primus-core[data]"')
