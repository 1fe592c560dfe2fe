"""Versions of installed distributions, from their metadata."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError

from primus_core.discovery.plugins import Plugins, metadata_field


def installed_version(distribution: str) -> str | None:
    """Version of a distribution as pip knows it; None where it is not installed."""
    try:
        return metadata_field(Distribution.from_name(distribution), "Version") or None
    except PackageNotFoundError:
        return None


def distributions(plugins: Plugins) -> Mapping[str, str]:
    """Name and version of each distribution that has a Primus plugin, core's own included."""
    return dict(sorted((info.distribution, info.version) for info in plugins))
