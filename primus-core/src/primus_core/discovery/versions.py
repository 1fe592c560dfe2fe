"""Versions of installed distributions, from their metadata."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from primus_core.discovery.plugins import Plugins, scan


def installed_version(distribution: str) -> str | None:
    """Version of a distribution as pip knows it; None where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def distributions(plugins: Plugins | None = None) -> Mapping[str, str]:
    """Name and version of each distribution that has a Primus plugin, core's own included.

    Args:
        plugins: what an earlier `scan` found; None: scan now.
    """
    return dict(sorted((info.distribution, info.version) for info in (plugins or scan())))
