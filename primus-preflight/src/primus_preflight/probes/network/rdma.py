"""RDMA devices, their ports and addresses (GIDs), from sysfs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_core.records import frozen
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome, Unavailable
from primus_preflight.probes.found import facts_of, warning
from primus_preflight.probes.reading import leading, number, text

CLASS = "sys/class/infiniband"
_NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


@frozen(kw_only=True)
class Gid:
    """An address of a port, by which NCCL_IB_GID_INDEX chooses."""

    index: int
    kind: str
    """``IB/RoCE v1`` or ``RoCE v2``; empty where the kernel does not tell."""
    has_ipv4: bool


@frozen(kw_only=True)
class Port:
    """One port of a device."""

    device: str
    number: int
    active: bool
    state: str
    gbps: float | None
    """Gigabits a second."""
    layer: str
    """``InfiniBand`` or ``Ethernet``."""
    firmware: str
    interfaces: tuple[str, ...]
    link_downs: int | None
    """How often the link was lost since its counters were set back."""
    gids: tuple[Gid, ...]

    @property
    def name(self) -> str:
        return f"{self.device}:{self.number}"

    @property
    def facts(self) -> dict[str, Value]:
        version_2: list[Value] = [gid.index for gid in self.gids if gid.kind == "RoCE v2"]
        told = facts_of(self, "device", "number", "active", "gids")
        return {**told, "gids": len(self.gids), "roce_v2_gids": version_2}


def look(about: Looked) -> Outcome:
    """Every port; unavailable where there is no device."""
    found = ports(about.root)
    if not found:
        raise Unavailable("there are no RDMA devices")
    facts: dict[str, Value] = {
        "ports": {port.name: port.facts for port in found},
        "active": sum(port.active for port in found),
        "rates_gbps": [*sorted({port.gbps for port in found if port.active and port.gbps})],
        "firmware": [*sorted({port.firmware for port in found if port.firmware})],
    }
    return Outcome(facts=facts, findings=tuple(judged(found)))


def ports(root: Path) -> list[Port]:
    """In the order of devices and ports."""
    folders = sorted((root / CLASS).glob("*/ports/[0-9]*"), key=lambda path: (path.parts[-3], int(path.name)))
    return [_port(folder) for folder in folders]


def judged(found: list[Port]) -> Iterator[Finding]:
    """Ports that are down or slow while others of the node work, and those that RoCE cannot use."""
    active = [port for port in found if port.active]
    for port in found if active else ():
        if not port.active:
            yield warning(
                "network.rdma-port",
                f"the RDMA port {port.name} is not active",
                f"state {port.state}; {len(active)} of {len(found)} ports of this node are",
                "Look at its cable and at the switch's port; leave it out with NCCL_IB_HCA where it is not meant.",
            )
    rates = Counter(port.gbps for port in active if port.gbps)
    usual, count = rates.most_common(1)[0] if rates else (0.0, 0)
    for port in active:
        if port.gbps and len(active) > 2 and count > len(active) / 2 and port.gbps < usual:
            yield warning(
                "network.rdma-rate",
                f"the RDMA port {port.name} has {port.gbps:g} Gbit/s, most others {usual:g}",
                remedy="Look at its cable and at the switch's port: some lanes or a speed were lost.",
            )
        if port.layer == "Ethernet" and port.gids and not any(gid.kind == "RoCE v2" for gid in port.gids):
            yield warning(
                "network.roce",
                f"the RDMA port {port.name} has no RoCE v2 address",
                f"its {len(port.gids)} GIDs are of version 1, which routers do not pass on",
                "Give its interface an address, and switch on RoCE v2 (`cma_roce_mode`, the driver's settings).",
            )


def _port(folder: Path) -> Port:
    device = folder.parent.parent
    state = text(folder / "state").partition(":")[2].strip() or "unknown"
    return Port(
        device=device.name,
        number=int(folder.name),
        active=state == "ACTIVE",
        state=state,
        gbps=leading(text(folder / "rate")),
        layer=text(folder / "link_layer"),
        firmware=text(device / "fw_ver"),
        interfaces=tuple(sorted(path.name for path in (device / "device/net").glob("*"))),
        link_downs=number(folder / "counters/link_downed"),
        gids=tuple(_gids(folder)),
    )


def _gids(folder: Path) -> Iterator[Gid]:
    """Those in use; the table has many that are not."""
    for path in sorted((folder / "gids").glob("[0-9]*"), key=lambda one: int(one.name)):
        gid = text(path)
        if gid and gid != _NO_GID:
            kind = text(folder / "gid_attrs/types" / path.name)
            yield Gid(index=int(path.name), kind=kind, has_ipv4=gid.startswith("0000:0000:0000:0000:0000:ffff:"))
