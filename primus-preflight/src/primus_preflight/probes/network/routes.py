"""Which interface leads to each peer."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome, Unavailable
from primus_preflight.probes.found import error, warning
from primus_preflight.probes.network.addresses import is_loopback, normal, own_addresses
from primus_preflight.probes.network.names import found_by
from primus_preflight.probes.network.peers import meeting_point, peers

_PORT = 9
"""Any: nothing is sent."""


def look(about: Looked) -> Outcome:
    """Of every peer that the node is told of; unavailable where it is told of none."""
    told = peers(about)
    if not told:
        raise Unavailable("no other host is named: neither MASTER_ADDR nor hosts of a launcher")
    ways = {name: first_way(addresses) for name in told if (addresses := found_by(name))}
    facts: dict[str, Value] = {
        "peers": {name: {"interface": interface, "from": own} for name, (interface, own) in ways.items()}
    }
    meeting = {name: way for name, way in ways.items() if name == meeting_point(about)}
    return Outcome(facts=facts, findings=tuple(judged(meeting, about.plan.target.nodes)))


def first_way(addresses: Sequence[str]) -> tuple[str, str]:
    """The way to the first address of a host to which one leads, as of a host with IPv6 that this one lacks."""
    return next((way for address in addresses if (way := way_to(address))[1]), ("", ""))


def way_to(address: str) -> tuple[str, str]:
    """The interface that leads to an address, and this node's own address there; empty where nothing does."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, _PORT))
            own = normal(str(probe.getsockname()[0]))
    except OSError:
        return "", ""
    by_address = {normal(one): name for name, each in own_addresses().items() for one in each}
    return by_address.get(own, ""), own


def judged(ways: Mapping[str, tuple[str, str]], nodes: int) -> Iterator[Finding]:
    """A meeting point to which nothing leads, or which every node takes for itself.

    Whether other peers can be reached is measured when the nodes meet.
    """
    for name, (interface, own) in ways.items():
        if not own:
            yield error(
                "network.route",
                f"nothing leads to the peer {name}",
                "no interface of this node has a route to it",
                "Look at the node's addresses and routes: `ip route get ADDRESS`.",
            )
        elif nodes > 1 and is_loopback(own) and name in ("localhost", "127.0.0.1", "::1"):
            yield warning(
                "network.meeting-point",
                f"the ranks of {nodes} nodes shall meet at {name}, which is another host for each of them",
                f"by the interface {interface or 'lo'}",
                "Set MASTER_ADDR to the first node's name or address.",
            )
