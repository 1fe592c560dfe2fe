"""Addresses of this host's interfaces, from the kernel itself: containers often lack the program ``ip``.

Addresses are compared as addresses: ``fe80::1`` and ``FE80:0::1`` are one.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator, Mapping

_GET_ADDRESS, _NEW_ADDRESS, _DONE = 22, 20, 3
_REQUEST, _DUMP = 0x1, 0x300
_ADDRESS, _LOCAL = 1, 2
_HEADER = struct.Struct("=IHHII")
"""Length, type, flags, sequence, port of a message of netlink."""
_ABOUT = struct.Struct("=BBBBi")
"""Family, length of the prefix, flags, scope, index of the interface."""
_ATTRIBUTE = struct.Struct("=HH")
_CHUNK = 1 << 16


def own_addresses() -> Mapping[str, tuple[str, ...]]:
    """Addresses by interface, in the kernel's order; links' own (``fe80::``) left out."""
    found: dict[str, list[str]] = {}
    for index, address in parsed(_asked()):
        if not ipaddress.ip_address(address).is_link_local:
            found.setdefault(socket.if_indextoname(index), []).append(address)
    return {name: tuple(addresses) for name, addresses in found.items()}


def same(first: str, second: str) -> bool:
    """Whether two texts are one address; an IPv4 address within IPv6 is itself."""
    return normal(first) == normal(second)


def normal(address: str) -> str:
    """The usual text of an address; the text itself where it is none, such as a name."""
    try:
        parsed_one = ipaddress.ip_address(address.partition("%")[0].strip("[]"))
    except ValueError:
        return address
    mapped = getattr(parsed_one, "ipv4_mapped", None)
    return str(mapped or parsed_one)


def is_loopback(address: str) -> bool:
    """Such as 127.0.1.1, which Debian gives a host's own name."""
    return ipaddress.ip_address(normal(address)).is_loopback


def parsed(answer: bytes) -> Iterator[tuple[int, str]]:
    """Index of the interface and address, from messages of netlink."""
    while len(answer) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(answer)
        if kind == _NEW_ADDRESS:
            yield from _one(answer[_HEADER.size : length])
        answer = answer[_aligned(length) or len(answer) :]


def _one(message: bytes) -> Iterator[tuple[int, str]]:
    family, _, _, _, index = _ABOUT.unpack_from(message)
    rest, told = message[_ABOUT.size :], {}
    while len(rest) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(rest)
        told[kind] = rest[_ATTRIBUTE.size : length]
        rest = rest[_aligned(length) or len(rest) :]
    raw = told.get(_LOCAL) or told.get(_ADDRESS)  # of a point-to-point link, the other is the far end's
    if raw and family in (socket.AF_INET, socket.AF_INET6):
        yield index, socket.inet_ntop(family, raw)


def _asked() -> bytes:
    """All that the kernel answers to one question."""
    request = _HEADER.pack(_HEADER.size + _ABOUT.size, _GET_ADDRESS, _REQUEST | _DUMP, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.settimeout(5.0)
        link.send(request + _ABOUT.pack(socket.AF_UNSPEC, 0, 0, 0, 0))
        answer = b""
        while True:
            chunk = link.recv(_CHUNK)
            answer += chunk
            if not chunk or any(kind == _DONE for kind in _kinds(chunk)):
                return answer


def _kinds(chunk: bytes) -> Iterator[int]:
    while len(chunk) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(chunk)
        yield kind
        chunk = chunk[_aligned(length) or len(chunk) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3
