"""What this host computes with, read from its device files (nothing is imported or run)."""

from __future__ import annotations

import re
from pathlib import Path

from primus_core.kfd import kfd_accelerators
from primus_core.plan import Accelerator
from primus_core.records import frozen

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
        return Found(kind="rocm", count=len(kfd_accelerators(root)))
    devices = [path for path in (root / "dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    return Found(kind="cuda", count=len(devices)) if devices else Found(kind="cpu", count=0)
