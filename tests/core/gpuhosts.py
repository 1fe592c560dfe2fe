"""Made-up trees of what the drivers of GPUs show in sysfs and procfs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PROCESSOR = "cpu_cores_count 64\nsimd_count 0\nvendor_id 0\ndevice_id 0\n"


def amd_host(root: Path, devices: Sequence[int]) -> Path:
    """A host with two processors and these accelerators, by PCI device id."""
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    texts = [PROCESSOR] * 2 + [
        f"cpu_cores_count 0\nsimd_count 1216\nvendor_id 4098\ndevice_id {one}\n" for one in devices
    ]
    for number, text in enumerate(texts):
        (nodes / str(number)).mkdir(parents=True)
        (nodes / str(number) / "properties").write_text(text)
    return root


def nvidia_host(root: Path, names: Sequence[str]) -> Path:
    """A host with these GPUs, by the name that the driver gives them."""
    for number, name in enumerate(names):
        folder = root / f"proc/driver/nvidia/gpus/0000:{number + 1:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t {name}\nIRQ:   \t\t 58\nGPU UUID: \t GPU-0\n")
    return root
