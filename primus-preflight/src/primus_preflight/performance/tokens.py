"""The performance tests by the names that users give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from primus_core.errors import ConfigError
from primus_core.records import frozen
from primus_preflight.model import Unit

Scope = Literal["device", "node", "nodes", "pair"]
"""Who takes part: one device alone, all devices of a node, all devices of a group of nodes, one device of each of two
nodes."""
Work = Literal[
    "gemm", "hbm", "train_step", "all_reduce", "all_to_all", "all_gather", "reduce_scatter", "transfer", "ring"
]


@frozen(kw_only=True)
class Trial:
    """One kind of performance test."""

    name: str
    """Its token."""
    scope: Scope
    work: Work
    unit: Unit = "GB/s"


_ALL = (
    Trial(name="gemm", scope="device", work="gemm", unit="TFLOP/s"),
    Trial(name="hbm", scope="device", work="hbm"),
    Trial(name="train-step", scope="device", work="train_step", unit="TFLOP/s"),
    Trial(name="intra-allreduce", scope="node", work="all_reduce"),
    Trial(name="intra-alltoall", scope="node", work="all_to_all"),
    Trial(name="inter-allreduce", scope="nodes", work="all_reduce"),
    Trial(name="inter-alltoall", scope="nodes", work="all_to_all"),
    Trial(name="allgather", scope="nodes", work="all_gather"),
    Trial(name="reducescatter", scope="nodes", work="reduce_scatter"),
    Trial(name="inter-ring-p2p", scope="nodes", work="ring"),
    Trial(name="inter-p2p", scope="pair", work="transfer"),
)
TOKENS: tuple[str, ...] = tuple(test.name for test in _ALL)
"""All, in the order in which they run."""
QUICK = ("gemm", "inter-allreduce")
"""What ``--quick`` runs."""
OWN_SIZE: tuple[Work, ...] = ("gemm", "hbm", "train_step")
"""Tests that know one size."""
_BY_TOKEN: Mapping[str, Trial] = {test.name: test for test in _ALL}


def tests_named(tokens: tuple[str, ...]) -> tuple[Trial, ...]:
    """In the order in which they run.

    Raises:
        ConfigError: there is no such test.
    """
    for token in tokens:
        if token not in _BY_TOKEN:
            raise ConfigError(
                f"there is no performance test {token!r}", where="--tests", remedy=f"choose from {', '.join(TOKENS)}"
            )
    return tuple(test for test in _ALL if test.name in tokens)
