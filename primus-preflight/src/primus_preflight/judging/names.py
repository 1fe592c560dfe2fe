"""What tests and nodes are called in a report."""

from __future__ import annotations

from primus_core.quantities import memory_size
from primus_core.records import frozen
from primus_preflight.model import Gathered, Measurement

_SHOWN = 4
"""So many nodes are named; of more, the number is told."""

COMPUTES = frozenset({"gemm", "train-step"})
"""Tests of arithmetic."""
MEMORY = frozenset({"hbm"})
INSIDE = frozenset({"intra-allreduce", "intra-alltoall"})
"""Tests of the devices of one node with each other."""


@frozen(kw_only=True)
class Names:
    """Hosts by the ranks of nodes."""

    hosts: dict[int, str]

    @classmethod
    def of(cls, gathered: Gathered) -> Names:
        """The launcher's names, which schedulers know, where it has told them; else what nodes call themselves."""
        own = {node.node: node.host for node in gathered.nodes}
        return cls(hosts={**own, **dict(enumerate(gathered.hosts))})

    def host(self, node: int) -> str:
        return self.hosts.get(node) or f"node {node}"

    def way(self, pair: tuple[int, ...]) -> str:
        """``from a to b``."""
        return f"from {self.host(pair[0])} to {self.host(pair[1])}"

    def some(self, nodes: tuple[int, ...]) -> str:
        """``a``, ``a and b``, ``a, b, c, d and 12 more``."""
        names = [self.host(node) for node in nodes[:_SHOWN]]
        if len(nodes) > _SHOWN:
            return f"{', '.join(names)} and {len(nodes) - _SHOWN:,} more"
        return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""


def test_name(one: Measurement) -> str:
    """``inter-p2p 16.0 MiB``."""
    size = f" {memory_size(one.size_bytes)}" if one.size_bytes else ""
    return f"{one.test}{size}{f' {one.dtype}' if one.dtype else ''}"


def what_is_slow(test: str) -> tuple[str, str]:
    """What it means that a node is slow in a test, and what to do about it."""
    if test in COMPUTES:
        cool = "Look at clocks, power limits, temperature and other processes of the device, then run again."
        return "computes more slowly than others", cool
    if test in MEMORY:
        return "has slower memory than others", "Look at the device's ECC errors and memory clock; drain the node."
    if test in INSIDE:
        return "its devices exchange data more slowly than others", "Look at the links between its devices."
    network = "Look at its cable, port speed and error counters (ethtool, ibstat); drain the node until it is fast."
    return "exchanges data with all others slowly", network
