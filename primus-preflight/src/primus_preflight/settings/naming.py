"""Variables that name interfaces or RDMA devices: do they name any?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from primus_core.outcome import Finding
from primus_preflight.probes.found import error, warning

BY_BEGINNING = ("NCCL_SOCKET_IFNAME",)
"""A list of beginnings of names; ``=`` before it: of whole names; ``^`` before it: of those to leave out."""
BY_NAME = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
"""Whole names."""
_DEVICES, _INDEX = "NCCL_IB_HCA", "NCCL_IB_GID_INDEX"
NAMING = (*BY_BEGINNING, *BY_NAME, _DEVICES, _INDEX)


class HasIndex(Protocol):
    """An address of a port."""

    @property
    def index(self) -> int: ...


class HasGids(Protocol):
    """A port of an RDMA device."""

    @property
    def device(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def active(self) -> bool: ...
    @property
    def layer(self) -> str: ...
    @property
    def gids(self) -> Sequence[HasIndex]: ...


def chosen(value: str, names: Sequence[str]) -> list[str]:
    """The names that NCCL takes by a list such as ``eth,ib``, ``=eth0`` or ``^docker,lo``."""
    excludes = value.startswith("^")
    rest = value[1:] if excludes else value
    exact = rest.startswith("=")
    words = [word for word in (rest[1:] if exact else rest).split(",") if word]

    def fits(name: str) -> bool:
        return any(
            name == word.partition(":")[0] if exact else name.startswith(word.partition(":")[0]) for word in words
        )

    return [name for name in names if fits(name) is not excludes]


def named_interfaces(env: Mapping[str, str], names: Sequence[str], nodes: int) -> Iterator[Finding]:
    """Settings that name no interface of this node, or on several nodes the one that leads nowhere."""
    for variable in BY_BEGINNING:
        value = env.get(variable, "")
        taken = chosen(value, names) if value else []
        if value and not taken:
            yield _names_nothing(variable, value, names)
        elif value and nodes > 1 and taken == ["lo"]:
            yield _leads_nowhere(variable, value, nodes)
    for variable in BY_NAME:
        words = [word.strip() for word in env.get(variable, "").split(",") if word.strip()]
        missing = [word for word in words if word not in names]
        if missing:
            yield _names_nothing(variable, env[variable], names)
        elif words == ["lo"] and nodes > 1:
            yield _leads_nowhere(variable, env[variable], nodes)


def named_devices(env: Mapping[str, str], ports: Sequence[HasGids]) -> Iterator[Finding]:
    """Settings that name no RDMA device of this node, or an address that a port does not have."""
    value = env.get(_DEVICES, "")
    devices = list(dict.fromkeys(port.device for port in ports))
    taken = chosen(value, devices) if value else devices
    if value and not taken:
        known = f"this node has {', '.join(devices)}" if devices else "this node has no RDMA device"
        yield error(
            "settings.devices",
            f"{_DEVICES}={value} names no RDMA device",
            known,
            f"Name some of them, or leave {_DEVICES} unset.",
        )
    index = env.get(_INDEX, "")
    if not index.isdecimal():
        return
    wanting = [
        f"{port.device}:{port.number}"
        for port in ports
        if port.active and port.layer == "Ethernet" and port.device in taken
        if int(index) not in {gid.index for gid in port.gids}
    ]
    if wanting:
        yield error(
            "settings.gid",
            f"{_INDEX}={index} is no address of {', '.join(wanting)}",
            "connections over RoCE fail when a port has nothing at this place of its table",
            f"Leave {_INDEX} unset, as NCCL since 2.21 finds the right one, or look at `show_gids`.",
        )


def _names_nothing(variable: str, value: str, names: Sequence[str]) -> Finding:
    return error(
        "settings.interfaces",
        f"{variable}={value} names no interface of this node",
        f"it has {', '.join(names) or 'none'}",
        f"Name one that leads to the other nodes, or leave {variable} unset.",
    )


def _leads_nowhere(variable: str, value: str, nodes: int) -> Finding:
    return warning(
        "settings.loopback",
        f"{variable}={value} leads to no other node",
        f"the run has {nodes} nodes, and lo is the way of each to itself",
        "Name an interface that leads to the other nodes.",
    )
