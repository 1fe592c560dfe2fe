"""All accelerators of a node together: how many, of which model, where, and how they reach each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from primus_core.experiment import Value
from primus_core.hardware import find_gpus
from primus_core.kfd import kfd_accelerators, pci_address
from primus_core.outcome import Finding
from primus_core.plan import Accelerator
from primus_core.planning.accelerators import find_accelerators
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome, Unavailable
from primus_preflight.probes.found import error, warning
from primus_preflight.probes.gpu import amd, nvidia
from primus_preflight.probes.host.pcie import accelerators_on_bus
from primus_preflight.probes.reading import name_of_link, number, text
from primus_preflight.settings.visibility import visible

MOST = 0.75
"""Share of pairs that decides how pairs of a host are joined: one device of eight is in a quarter of them."""
_MODULES = {"cuda": "nvidia", "rocm": "amdgpu"}
_SECONDS = 12.0


def look(about: Looked) -> Outcome:
    """Unavailable on a node that has none."""
    found = find_accelerators(about.root)
    lost = tuple(undriven(about.root))
    if not found.count:
        if lost:
            return Outcome(facts={"kind": found.kind, "count": 0}, findings=lost)
        raise Unavailable("no accelerator is here: neither /dev/kfd nor /dev/nvidia0 has one")
    joined = links(about, found.kind)
    models = find_gpus(about.root)
    places = addresses(about.root, found.kind)
    facts: dict[str, Value] = {
        "kind": found.kind,
        "count": found.count,
        "visible": len(visible(about.env, found.kind, found.count)),
        "models": list(models),
        "driver": text(about.root / "sys/module" / _MODULES[found.kind] / "version") or None,
        "addresses": list(places),
        "numa_nodes": [_numa(about.root, address) for address in places],
        "links": {f"{first}-{second}": kind for (first, second), kind in sorted(joined.items())},
    }
    return Outcome(facts=facts, findings=(*lost, *mixed(models), *badly_joined(joined)))


def addresses(root: Path, kind: Accelerator) -> tuple[str, ...]:
    """On the PCI bus, in the driver's order."""
    if kind == "rocm":
        return tuple(map(pci_address, kfd_accelerators(root)))
    return tuple(sorted(folder.name.lower() for folder in (root / "proc/driver/nvidia/gpus").glob("*:*")))


def links(about: Looked, kind: Accelerator) -> Mapping[tuple[int, int], str]:
    """How pairs of devices reach each other; empty where no tool tells."""
    ways = (
        (("nvidia-smi", "topo", "-m"), nvidia.parse_topology, "cuda"),
        (("amd-smi", "topology", "--json"), amd.parse_topology, "rocm"),
        (("rocm-smi", "--showtopotype", "--json"), amd.parse_rocm_topology, "rocm"),
    )
    for argv, parse, of in ways:
        if of == kind:
            try:
                return parse(about.run(argv, _SECONDS))
            except Unavailable:
                continue
    return {}


def undriven(root: Path) -> Iterator[Finding]:
    """Accelerators on the bus that no driver has taken, such as one that failed when the node was started."""
    bus = root / "sys/bus/pci/devices"
    for address in accelerators_on_bus(root):
        if not name_of_link(bus / address / "driver"):
            yield error(
                "gpu.no-driver",
                f"no driver has taken the accelerator {address}",
                "it is on the PCI bus, and the kernel's module is not loaded or has refused it",
                "Load the driver, or look in the kernel's log why it failed.",
            )


def mixed(models: tuple[str, ...]) -> Iterator[Finding]:
    """Different models in one node."""
    if len(models) > 1:
        yield error(
            "gpu.mixed",
            f"the accelerators of this node are of different models: {', '.join(models)}",
            "all ranks wait for the slowest, and the one with the least memory decides what fits",
            "Leave some out with CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES.",
        )


def badly_joined(joined: Mapping[tuple[int, int], str]) -> Iterator[Finding]:
    """Pairs that have a worse link than most have; hosts whose pairs differ by design are left alone."""
    if not joined:
        return
    usual, count = Counter(joined.values()).most_common(1)[0]
    odd = {pair: kind for pair, kind in joined.items() if kind != usual}
    if not odd or count < MOST * len(joined) or not usual.startswith(("NV", "XGMI")):
        return
    often = Counter(device for pair in odd for device in pair)
    worst = [device for device, times in often.items() if times == max(often.values())]
    named = f"device {worst[0]}" if len(worst) == 1 else f"{len(odd)} pairs of devices"
    pairs = ", ".join(f"{first}-{second} {kind}" for (first, second), kind in sorted(odd.items()))
    yield warning(
        "gpu.links",
        f"{named} lack{'s' * (len(worst) == 1)} the fast link that the others have",
        f"most pairs have {usual}; {pairs}",
        "Restart the node; where it stays so, have its links looked at.",
    )


def _numa(root: Path, address: str) -> int | None:
    node = number(root / "sys/bus/pci/devices" / address / "numa_node")
    return node if node is not None and node >= 0 else None
