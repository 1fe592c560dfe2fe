"""Names of hosts: does this node's own name lead to it, and do its addresses lead back; can those of peers be found?"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome
from primus_preflight.probes.found import error, warning
from primus_preflight.probes.network.addresses import is_loopback, normal, own_addresses
from primus_preflight.probes.network.peers import meeting_point, peers


def look(about: Looked) -> Outcome:
    """This node's name, and those of the peers that it is told of."""
    host = socket.gethostname()
    own = {normal(one) for each in own_addresses().values() for one in each}
    found, others = found_by(host), {name: found_by(name) for name in peers(about)}
    usable = [address for address in found if not is_loopback(address)]
    back: Value = named(usable[0]) if usable else None
    facts: dict[str, Value] = {
        "host": host,
        "found": list(found),
        "back": back,
        "peers": {name: list(addresses) for name, addresses in others.items()},
    }
    needed = about.plan.target.nodes > 1 and "GLOO_SOCKET_IFNAME" not in about.env
    lost = unknown(meeting_point(about), others)
    return Outcome(facts=facts, findings=(*(judged(host, found, own) if needed else ()), *lost))


def found_by(name: str) -> tuple[str, ...]:
    """The addresses of a name; none where nobody knows it."""
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(normal(str(answer[4][0])) for answer in answers))


def named(address: str) -> str | None:
    """The name of an address; None where it has none."""
    try:
        return socket.gethostbyaddr(address)[0]
    except OSError:
        return None


def judged(host: str, found: Sequence[str], own: set[str]) -> Iterator[Finding]:
    """A host alone needs no name; among several, gloo binds to its address, unless an interface is named to it."""
    remedy = "Correct /etc/hosts or the name service; GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME name an interface."
    if not found:
        yield warning("network.name", f"this node's own name {host} leads to no address", remedy=remedy)
    elif all(map(is_loopback, found)):
        yield warning(
            "network.name-loopback",
            f"this node's own name {host} leads to itself alone: {', '.join(found)}",
            "gloo binds to the address of the host's name: other nodes could not reach it",
            remedy,
        )
    elif not any(address in own for address in found):
        yield error(
            "network.name-other",
            f"this node's own name {host} leads to another host: {', '.join(found)}",
            "none of its interfaces has such an address",
            remedy,
        )


def unknown(meeting: str, others: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """The meeting point's name leads nowhere. Nobody but ssh on the submitting host needs those of other peers."""
    if meeting and not others[meeting]:
        yield error(
            "network.peer-name",
            f"the name of the peer {meeting} leads to no address",
            "the ranks of all nodes meet there",
            "Correct /etc/hosts or the name service of this node.",
        )
