"""PCIe links of accelerators and network cards: width and speed against what the card and its slot can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_core.records import frozen
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome, Unavailable
from primus_preflight.probes.found import facts_of, warning
from primus_preflight.probes.reading import leading, number, text

N = TypeVar("N", int, float)

NVIDIA, AMD = "0x10de", "0x1002"
_DEVICES = "sys/bus/pci/devices"
_ACCELERATORS = ("0x0302", "0x0380", "0x1200")
"""Classes: 3D controller, other display controller, processing accelerator."""
_NETWORK = ("0x0200", "0x0207")
"""Ethernet, InfiniBand."""


@frozen(kw_only=True)
class Link:
    """One card's link. None: the kernel does not know, as in most virtual machines."""

    address: str
    kind: str
    """``accelerator`` or ``network``."""
    vendor: str
    width: int | None
    width_possible: int | None
    """Of card and slot the smaller."""
    speed_gts: float | None
    """GT/s of a lane."""
    speed_possible_gts: float | None
    numa_node: int | None

    @property
    def facts(self) -> dict[str, Value]:
        return facts_of(self, "address", "vendor")


def look(about: Looked) -> Outcome:
    """Every link of interest, by the card's address."""
    if not (about.root / _DEVICES).is_dir():
        raise Unavailable("there is no /sys/bus/pci here")
    found = links(about.root)
    facts: Mapping[str, Value] = {"links": {link.address: link.facts for link in found}}
    return Outcome(facts=facts, findings=tuple(finding for link in found for finding in judged(link)))


def links(root: Path) -> list[Link]:
    """Accelerators and network cards, in the order of their addresses."""
    folders = sorted((root / _DEVICES).glob("*:*"))
    return [_link(folder, kind) for folder in folders if (kind := _kind(folder))]


def accelerators_on_bus(root: Path) -> dict[str, str]:
    """Vendor by address of what NVIDIA's or AMD's driver should drive."""
    return {link.address: link.vendor for link in links(root) if link.kind == "accelerator"}


def judged(link: Link) -> Iterator[Finding]:
    """A link with fewer lanes than it could have; a slow one, unless the card saves power when it idles."""
    if link.width and link.width_possible and link.width < link.width_possible:
        yield _slow(link, f"x{link.width} instead of x{link.width_possible}")
    idles = link.kind == "accelerator" and link.vendor == NVIDIA
    speed, possible = link.speed_gts, link.speed_possible_gts
    if speed and possible and speed < possible and not idles:
        yield _slow(link, f"{speed:g} GT/s instead of {possible:g} GT/s")


def _slow(link: Link, how: str) -> Finding:
    return warning(
        "host.pcie",
        f"the PCIe link of {link.kind} {link.address} runs at {how}",
        f"x{link.width} of x{link.width_possible}, {link.speed_gts} of {link.speed_possible_gts} GT/s"
        ": what card and slot can",
        "Restart the node; where it stays so, have the card and its riser or cable looked at.",
    )


def _kind(folder: Path) -> str:
    kind, vendor = text(folder / "class")[:6], text(folder / "vendor")
    if kind in _NETWORK and _is_physical(folder):
        return "network"
    shows = kind == "0x0300" and (folder / "mem_info_vram_total").exists()  # AMD's cards of workstations
    return "accelerator" if vendor in (NVIDIA, AMD) and (kind in _ACCELERATORS or shows) else ""


def _is_physical(folder: Path) -> bool:
    """A virtual function has no link of its own."""
    return not (folder / "physfn").exists()


def _link(folder: Path, kind: str) -> Link:
    slot = _slot(folder)
    numa = number(folder / "numa_node")
    return Link(
        address=folder.name,
        kind=kind,
        vendor=text(folder / "vendor"),
        width=_lanes(folder / "current_link_width"),
        width_possible=_smaller(_lanes(folder / "max_link_width"), _lanes(slot / "max_link_width")),
        speed_gts=leading(text(folder / "current_link_speed")),
        speed_possible_gts=_smaller(leading(text(folder / "max_link_speed")), leading(text(slot / "max_link_speed"))),
        numa_node=numa if numa is not None and numa >= 0 else None,
    )


def _slot(folder: Path) -> Path:
    """The port above the card, which is the folder above in the tree of devices."""
    return folder.resolve().parent


def _lanes(path: Path) -> int | None:
    """The kernel says 0 or 255 where it does not know."""
    lanes = number(path)
    return lanes if lanes and lanes < 255 else None


def _smaller(first: N | None, second: N | None) -> N | None:
    known = [value for value in (first, second) if value]
    return min(known, default=None)
