"""What this host computes with, read from its device files (nothing is imported or run)."""

from __future__ import annotations

import re
from pathlib import Path

from attrs import frozen

from primus_core.plan import Accelerator

ASSUMED_PER_NODE = 8
"""Accelerators of a node that cannot be looked at from here."""


@frozen(kw_only=True)
class Found:
    """The accelerators of a host."""

    kind: Accelerator
    count: int
    """Number of devices; 0 for a host that has none."""


def find_accelerators(root: Path = Path("/")) -> Found:
    """Look at device files: ``/dev/kfd`` means ROCm, ``/dev/nvidia0`` CUDA, neither a CPU-only host.

    Args:
        root: the file system to look at; another one than ``/`` only in tests.
    """
    if (root / "dev/kfd").exists():
        return Found(kind="rocm", count=_rocm_devices(root))
    devices = [path for path in (root / "dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    return Found(kind="cuda", count=len(devices)) if devices else Found(kind="cpu", count=0)


def _rocm_devices(root: Path) -> int:
    """KFD lists processors and accelerators as nodes; only accelerators have SIMD units."""
    properties = (root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties")
    return sum(bool(re.search(r"^simd_count [1-9]", path.read_text(), re.MULTILINE)) for path in properties)
