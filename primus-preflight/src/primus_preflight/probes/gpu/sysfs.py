"""AMD's accelerators as the kernel's files tell of them, where no tool of ROCm is installed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from primus_core.experiment import Value
from primus_core.kfd import kfd_accelerators, pci_address
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Unavailable
from primus_preflight.probes.reading import number as number_in
from primus_preflight.probes.reading import text


def amd(about: Looked, number: int, seconds: float) -> Mapping[str, Value]:
    """The driver's device of this number."""
    tables = kfd_accelerators(about.root)
    if number >= len(tables):
        raise Unavailable("neither amd-smi, rocm-smi nor the driver's files are here")
    address = pci_address(tables[number])
    return facts_of(about.root / "sys/bus/pci/devices" / address, address)


def facts_of(folder: Path, address: str) -> dict[str, Value]:
    """From the device's folder of amdgpu."""
    errors = [counts for path in sorted(folder.glob("ras/*_err_count")) if (counts := error_counts(text(path)))]
    facts: dict[str, Value] = {
        "model": text(folder / "product_name") or None,
        "address": address,
        "firmware": text(folder / "vbios_version") or None,
        "memory_bytes": number_in(folder / "mem_info_vram_total"),
        "memory_used_bytes": number_in(folder / "mem_info_vram_used"),
        "uncorrected_errors": sum(one.get("ue", 0) for one in errors) if errors else None,
        "corrected_errors": sum(one.get("ce", 0) for one in errors) if errors else None,
        "temperature_c": _junction(folder),
        "link_width": number_in(folder / "current_link_width"),
        "partition": text(folder / "current_compute_partition") or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def error_counts(counts: str) -> dict[str, int]:
    """``ue: 0`` and ``ce: 3`` of a block's file."""
    return {name: int(count) for name, count in re.findall(r"(?m)^(ue|ce):\s*(\d+)", counts)}


def _junction(folder: Path) -> float | None:
    """Degrees of the hottest place, which the driver labels; the file has thousandths."""
    for label in sorted(folder.glob("hwmon/hwmon*/temp*_label")):
        if text(label) == "junction":
            heat = number_in(label.with_name(label.name.replace("_label", "_input")))
            return None if heat is None else heat / 1000
    return None
