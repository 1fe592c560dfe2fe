"""Which node of how many this is, and where they meet: as the environment or the section ``direct:`` says."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.records import frozen

DEFAULT_PORT = 29500
WAIT_SECONDS = 300.0
_NAMES = {
    "nnodes": "NNODES",
    "node_rank": "NODE_RANK",
    "master_addr": "MASTER_ADDR",
    "master_port": "MASTER_PORT",
    "wait_seconds": "NODES_WAIT_SECONDS",
}
"""Options of ``direct:`` and the variables that are stronger."""


@frozen(kw_only=True)
class Place:
    """One node of a run."""

    nodes: int
    rank: int
    address: str
    """Of node 0, as the user wrote it."""
    port: int
    """Of node 0, where the nodes meet."""
    port_is_given: bool = False
    """The user chose it."""
    wait: float
    """Seconds that nodes wait for each other."""

    @property
    def leads(self) -> bool:
        return self.rank == 0


def place_of(env: Mapping[str, str], options: Mapping[str, Value]) -> Place | None:
    """This node's place; None for a run on one node.

    Raises:
        ConfigError: a number is none or out of range, or one is missing.
    """
    asked = asked_of(env, options)
    nodes = _number("nnodes", asked["nnodes"], 1)
    if nodes < 1:
        raise ConfigError(f"NNODES is {nodes}", why="a run has at least one node", remedy="give the number of nodes")
    if nodes == 1:
        return None
    if asked["node_rank"] is None:
        raise _missing("NODE_RANK", nodes, "0 on the first node, 1 on the next, and so on")
    if asked["master_addr"] is None:
        raise _missing("MASTER_ADDR", nodes, "the name or address of node 0, the same on every node")
    rank = _number("node_rank", asked["node_rank"], 0)
    if rank not in range(nodes):
        why = f"{nodes} nodes have the ranks 0 to {nodes - 1}"
        raise ConfigError(f"NODE_RANK is {rank}", why=why, remedy="give each node its own of these")
    port = _number("master_port", asked["master_port"], DEFAULT_PORT)
    if port not in range(1, 1 << 16):
        raise ConfigError(f"MASTER_PORT is {port}", why="ports are 1 to 65535", remedy="choose another, or none")
    return Place(
        nodes=nodes,
        rank=rank,
        address=str(asked["master_addr"]),
        port=port,
        port_is_given=asked["master_port"] is not None,
        wait=_seconds(asked["wait_seconds"]),
    )


def asked_of(env: Mapping[str, str], options: Mapping[str, Value]) -> dict[str, Value]:
    """What is asked, by the names of the options; None where nothing is."""
    return {name: env.get(variable) or options.get(name) for name, variable in _NAMES.items()}


def rough_place(env: Mapping[str, str], options: Mapping[str, Value]) -> tuple[int, str, int] | None:
    """How many nodes there are and the address and port of node 0; None for one node, or where that is not known."""
    asked = asked_of(env, options)
    try:
        nodes, port = _number("nnodes", asked["nnodes"], 1), _number("master_port", asked["master_port"], DEFAULT_PORT)
    except ConfigError:
        return None
    if nodes < 2 or asked["master_addr"] is None or port not in range(1, 1 << 16):
        return None
    return nodes, str(asked["master_addr"]), port


def _number(name: str, value: Value, default: int) -> int:
    try:
        return default if value is None else int(str(value))
    except ValueError:
        raise ConfigError(f"{_NAMES[name]} is {value!r}", why="it takes a whole number", remedy="mend it") from None


def _seconds(value: Value) -> float:
    try:
        return WAIT_SECONDS if value is None else float(str(value))
    except ValueError:
        raise ConfigError(f"NODES_WAIT_SECONDS is {value!r}", why="it takes seconds", remedy="mend it") from None


def _missing(name: str, nodes: int, meaning: str) -> ConfigError:
    option = name.lower()
    return ConfigError(
        f"{name} is not set, and the run has {nodes} nodes",
        why=f"{name} is {meaning}",
        remedy=f"export {name}, give --env {name}=..., or write `direct: {option}:`",
    )
