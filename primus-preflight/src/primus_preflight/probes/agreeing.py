"""Which facts must be the same on every node of a run, since its ranks wait for each other."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MUST_AGREE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "system": ("kernel", "cpu_model", "sockets", "cpus", "numa_balancing", "transparent_huge_pages"),
        "limits": ("open_files", "locked_memory_bytes"),
        "accelerators": ("kind", "count", "visible", "models", "driver"),
        "device": ("model", "firmware", "memory_bytes", "ecc", "power_limit_w", "partition"),
        "rdma": ("active", "rates_gbps", "firmware"),
    }
)
"""Names of facts by name of the look. Of ``device``, those of all devices of all nodes."""
