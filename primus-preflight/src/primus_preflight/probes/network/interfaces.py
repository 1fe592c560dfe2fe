"""The node's network interfaces: state, speed, MTU and addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_core.records import frozen
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome
from primus_preflight.probes.found import facts_of, warning
from primus_preflight.probes.network.addresses import is_loopback, own_addresses
from primus_preflight.probes.reading import name_of_link, number, text

_NET = "sys/class/net"
_KINDS = {1: "ethernet", 32: "infiniband", 772: "loopback"}


@frozen(kw_only=True)
class Interface:
    """One interface, as the kernel's files tell of it."""

    name: str
    kind: str
    up: bool
    """It has a carrier."""
    mtu: int | None
    speed_mbps: int | None
    """Megabits a second; None for virtual ones and without a carrier."""
    driver: str | None
    """None for a virtual one."""
    addresses: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, Value]:
        return facts_of(self, "name")


def look(about: Looked) -> Outcome:
    """Every interface; ``addresses``: those at which other hosts may reach this one."""
    addresses = own_addresses()
    found = interfaces(about.root, addresses)
    reachable = [one for each in addresses.values() for one in each if not is_loopback(one)]
    facts: dict[str, Value] = {
        "addresses": list(reachable),
        "interfaces": {one.name: one.facts for one in found},
        "mtu": {one.name: one.mtu for one in found if one.driver and one.up},
        "speed_mbps": {one.name: one.speed_mbps for one in found if one.driver and one.up},
    }
    return Outcome(facts=facts, findings=tuple(judged(found)))


def interfaces(root: Path, addresses: Mapping[str, tuple[str, ...]]) -> list[Interface]:
    """All that there are, by name; where ``/sys`` is missing, those that have an address."""
    names = {folder.name for folder in (root / _NET).glob("*") if (folder / "mtu").exists()} | set(addresses)
    return [_interface(root / _NET / name, addresses.get(name, ())) for name in sorted(names)]


def judged(found: list[Interface]) -> Iterator[Finding]:
    """A card that is slower, or has another MTU, than most of its kind in this node."""
    groups: dict[str, list[Interface]] = {}
    for one in found:
        if one.driver and one.up:
            groups.setdefault(one.driver, []).append(one)
    for driver, members in groups.items():
        yield from _odd(driver, {one.name: one.speed_mbps for one in members}, "host.speed", "Mbit/s")
        yield from _odd(driver, {one.name: one.mtu for one in members}, "host.mtu", "bytes of MTU")


def _odd(driver: str, values: Mapping[str, int | None], check: str, unit: str) -> Iterator[Finding]:
    """Those below what more than half of at least three have."""
    known = {name: value for name, value in values.items() if value}
    if len(known) < 3:
        return
    usual, count = Counter(known.values()).most_common(1)[0]
    for name, value in known.items():
        if count > len(known) / 2 and value < usual:
            yield warning(
                check.replace("host.", "network."),
                f"the interface {name} has {value} {unit}, the others of its kind {usual}",
                f"{count} of {len(known)} interfaces of {driver} have {usual}",
                "Look at its cable and at the switch's port, and compare its settings.",
            )


def _interface(folder: Path, addresses: tuple[str, ...]) -> Interface:
    speed, kind = number(folder / "speed"), number(folder / "type")
    seen = folder.is_dir()
    return Interface(
        name=folder.name,
        kind=_KINDS.get(kind, "other") if kind is not None else "unknown",
        up=text(folder / "carrier") == "1" if seen else True,
        mtu=number(folder / "mtu"),
        speed_mbps=speed if speed and speed > 0 else None,
        driver=name_of_link(folder / "device/driver") or None,
        addresses=addresses,
    )
