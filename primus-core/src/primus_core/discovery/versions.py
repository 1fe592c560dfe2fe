"""Versions of installed distributions, from their metadata."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.discovery.metadata import described_as
from primus_core.discovery.plugins import Plugins, metadata_field


def installed_version(distribution: str) -> str | None:
    """Version of a distribution as pip knows it; None where it is not installed."""
    found = described_as(distribution)
    return (metadata_field(found, "Version") or None) if found else None


def distributions(plugins: Plugins) -> Mapping[str, str]:
    """Name and version of each distribution that has a Primus plugin, core's own included."""
    return dict(sorted((info.distribution, info.version) for info in plugins))
