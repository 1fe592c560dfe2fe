"""AMD's accelerators as the kernel's compute driver (KFD) lists them. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_NODES = "sys/class/kfd/kfd/topology/nodes"


def kfd_accelerators(root: Path) -> list[dict[str, int]]:
    """The properties of each accelerator (``device_id``, ``domain``, ``location_id`` ...), in the driver's order.

    KFD lists processors too; only accelerators have SIMD units. In a container the properties of a device that was not
    given to it cannot be read: such a one is left out.

    Args:
        root: the file system to look at; another one than ``/`` only in tests.
    """
    folders = sorted((root / _NODES).glob("[0-9]*"), key=lambda folder: int(folder.name))
    tables = [_properties(folder / "properties") for folder in folders]
    return [table for table in tables if table.get("simd_count", 0) > 0]


def pci_address(table: Mapping[str, int]) -> str:
    """As sysfs writes it, from ``domain`` and ``location_id``: bus, device and function in 8, 5 and 3 bits."""
    place = table.get("location_id", 0)
    return f"{table.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7:x}"


def _properties(path: Path) -> dict[str, int]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return {}
    return {name: int(number) for name, number in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)}
