"""What a preflight has seen: probes, measurements, nodes. Facts only; what they mean is judged elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import field

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_core.plan import Accelerator
from primus_core.records import frozen

GATHERED_SCHEMA = 1
"""Version of the layout of the files that hold these types."""

Group = Literal["host", "gpu", "network", "plugin"]
ProbeStatus = Literal["ok", "error", "timeout", "unavailable"]
"""``unavailable``: there is nothing to look at, such as RDMA devices; no fault unless it was asked for."""
MeasurementStatus = Literal["ok", "error", "timeout", "wrong"]
"""``wrong``: a collective or a product gave other values than it must."""
Unit = Literal["GB/s", "TFLOP/s", "s"]
"""Giga and tera are powers of ten. More is better but for ``s``."""


@frozen(kw_only=True)
class Probe:
    """One look at a node."""

    name: str
    group: Group
    status: ProbeStatus
    seconds: float = 0.0
    """How long it took."""
    device: int | None = None
    """Index of the accelerator that it looked at; None for what concerns the node."""
    facts: Mapping[str, Value] = field(factory=dict)
    """What was seen, by name; the same name has the same meaning and unit on every node."""
    findings: tuple[Finding, ...] = ()
    """What is wrong or doubtful on this node, whatever the others have."""
    error: str = ""
    """Why it could not look; empty where it could."""


@frozen(kw_only=True)
class Measurement:
    """One performance test of one size in one group of ranks."""

    test: str
    """Its token: ``gemm``, ``inter-allreduce`` ..."""
    nodes: tuple[int, ...]
    """Node ranks in the order that matters: of a transfer the sender first."""
    ranks: int = 1
    """Processes that took part."""
    device: int | None = None
    """Index of the accelerator on its node where only one took part."""
    size_bytes: int = 0
    """Of each rank's buffer; 0 where size is not what the test is about."""
    dtype: str = ""
    values: tuple[float, ...] = ()
    """One for each repetition; empty where the test gave none."""
    unit: Unit = "GB/s"
    status: MeasurementStatus = "ok"
    error: str = ""
    round: int = 0
    """Measurements of one round ran at the same time."""


@frozen(kw_only=True)
class Node:
    """All that one node has seen."""

    node: int
    """Its rank among the nodes."""
    host: str
    addresses: tuple[str, ...] = ()
    accelerator: Accelerator = "cpu"
    devices: int = 0
    """Accelerators that a rank sees; 0 on a node that has none."""
    started: float = 0.0
    """Seconds since the epoch, by the node's own clock."""
    ended: float = 0.0
    probes: tuple[Probe, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    """Those that ran on this node alone, and those of groups that it led."""
    complete: bool = False
    """It has said all. One that is not complete was given up, or its agent ended, and is never judged as good."""


@frozen(kw_only=True)
class Gathered:
    """What all nodes have seen, and what was asked of them."""

    run_id: str
    expected_nodes: int
    """How many must have answered; 0 where only some nodes' files are known, not what was asked for."""
    hosts: tuple[str, ...] = ()
    """Their names in the order of node ranks, as far as the launcher knows them."""
    groups: tuple[Group, ...] = ()
    """What was asked for in so many words."""
    tests: tuple[str, ...] = ()
    """Tokens of the performance tests that were to run."""
    nodes: tuple[Node, ...] = ()
    """Those that answered, in the order of their ranks."""
    measurements: tuple[Measurement, ...] = ()
    """Of groups of nodes, as the coordinator has them."""
    said: tuple[str, ...] = ()
    """What the launcher says of nodes that it could not start, or lost."""
    versions: Mapping[str, str] = field(factory=dict)
    schema: int = GATHERED_SCHEMA

    @property
    def all_measurements(self) -> tuple[Measurement, ...]:
        """Those of groups and those of single nodes."""
        return (*self.measurements, *(one for node in self.nodes for one in node.measurements))
