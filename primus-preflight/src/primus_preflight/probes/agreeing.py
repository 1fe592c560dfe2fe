"""Which facts must be the same on every node and device of a run, since its ranks wait for each other."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

Facts = Mapping[str, tuple[str, ...]]
"""Names of facts by the name of the look that tells them."""

DEVICES_AGREE: Facts = MappingProxyType(
    {"device": ("model", "firmware", "memory_bytes", "ecc", "power_limit_w", "link_width", "partition")}
)
"""On all accelerators of a node."""
MUST_AGREE: Facts = MappingProxyType(
    {
        "system": (
            "kernel",
            "cpu_model",
            "sockets",
            "cpus",
            "numa_balancing",
            "transparent_huge_pages",
            "memory_bytes",
        ),
        "limits": ("open_files", "locked_memory_bytes"),
        "accelerators": ("kind", "count", "visible", "models", "driver"),
        "rdma": ("active", "rates_gbps", "firmware"),
        **DEVICES_AGREE,
    }
)
"""On all nodes; of ``device`` any one stands for its node."""
