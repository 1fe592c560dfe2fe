"""What the hardware is specified for: accelerators by their data sheets, networks by the speeds of their interfaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import field

from primus_core.experiment import Value
from primus_core.hardware import AcceleratorModel, find_model
from primus_core.records import frozen
from primus_preflight.judging.limits import Limits
from primus_preflight.judging.names import INSIDE, MEMORY, test_name
from primus_preflight.judging.peers import Figure, compared, figures_of
from primus_preflight.judging.performance import slow_node
from primus_preflight.judging.report import Fault, Verdict
from primus_preflight.model import Gathered, Measurement, Node

_ALL_LINKS = 8
"""Fewer devices use only some of the links of each."""
_TCP_MBPS = 10_000
"""One connection of TCP does not fill faster interfaces, and tests over TCP have one for each pair of ranks."""
_WHOLE_NODE = frozenset({"inter-allreduce", "allgather", "reducescatter"})
"""Tests whose bus bandwidth reaches that of all ports of a node together; transfers take one port."""


@frozen(kw_only=True)
class Network:
    """Rates of a node's ways to other nodes in one direction, GB/s."""

    port: float
    all_ports: float


@frozen(kw_only=True)
class Hardware:
    """Of all nodes, by their ranks; nodes of which nothing is known are left out."""

    models: Mapping[int, str] = field(factory=dict)
    """Names of accelerators."""
    networks: Mapping[int, Network] = field(factory=dict)

    @classmethod
    def of(cls, gathered: Gathered) -> Hardware:
        models = {node.node: _model(node) for node in gathered.nodes}
        networks = {node.node: _network(node) for node in gathered.nodes}
        return cls(
            models={node: name for node, name in models.items() if name},
            networks={node: one for node, one in networks.items() if one},
        )

    def specified(self, one: Measurement) -> float | None:
        """The rate that a measurement may reach, in its unit; None where nothing is known."""
        if len(one.nodes) > 1:
            return self._between(one)
        model = find_model(self.models.get(one.nodes[0], ""))
        return None if model is None else _inside(one, model)

    def _between(self, one: Measurement) -> float | None:
        """The slowest node counts."""
        known = [self.networks[node] for node in one.nodes if node in self.networks]
        if len(known) < len(one.nodes) or one.test not in {*_WHOLE_NODE, "inter-p2p", "inter-ring-p2p"}:
            return None
        return min(network.all_ports if one.test in _WHOLE_NODE else network.port for network in known)


def _facts(node: Node) -> Mapping[str, Mapping[str, Value]]:
    """By the names of looks; of devices, those of the first."""
    return {probe.name: probe.facts for probe in reversed(node.probes)}


def _model(node: Node) -> str:
    told = _facts(node)
    models = told.get("accelerators", {}).get("models")
    first = models[0] if isinstance(models, list) and models else told.get("device", {}).get("model")
    return str(first or "")


def _network(node: Node) -> Network | None:
    """Accelerators talk over the RDMA ports that are active; else TCP takes the interface that leads to the others."""
    told = _facts(node)
    rates = [_number(port, "gbps") for port in _named(told.get("rdma", {}), "ports") if port.get("state") == "ACTIVE"]
    if node.accelerator != "cpu" and any(rates):
        return Network(port=max(rates) / 8, all_ports=sum(rates) / 8)
    speeds = told.get("interfaces", {}).get("speed_mbps")
    ways = {str(way.get("interface")) for way in _named(told.get("routes", {}), "peers")}
    if not isinstance(speeds, dict) or len(ways or speeds) != 1:
        return None
    speed = speeds.get(next(iter(ways or speeds)))
    if not isinstance(speed, int) or not 0 < speed <= _TCP_MBPS:
        return None
    return Network(port=speed / 8e3, all_ports=speed / 8e3)


def _named(facts: Mapping[str, Value], name: str) -> list[Mapping[str, Value]]:
    """Facts that have names of their own, such as those of each port."""
    found = facts.get(name)
    return [one for one in found.values() if isinstance(one, dict)] if isinstance(found, dict) else []


def _number(facts: Mapping[str, Value], name: str) -> float:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _inside(one: Measurement, model: AcceleratorModel) -> float | None:
    if one.test == "gemm":
        rates = {"bf16": model.bf16_tflops, "fp16": model.bf16_tflops, "fp8": model.fp8_tflops}
        return rates.get(one.dtype)
    if one.test in MEMORY:
        return model.memory_gbs
    if one.test in INSIDE and one.ranks >= _ALL_LINKS:
        return model.link_gbs / 2  # it counts both directions together
    return None


def below_specification(measurements: Sequence[Measurement], hardware: Hardware, limits: Limits) -> Iterator[Fault]:
    """Nodes that in no size of a test, and with no other node, come near what the hardware is made for."""
    best: dict[tuple[int, str, int | None, str], tuple[float, Figure, float]] = {}
    for one in figures_of(measurements):
        test = one.measurement
        if rate := hardware.specified(test):
            for node in test.nodes:
                key = (node, test.test, test.device, test.dtype)
                best[key] = max(best.get(key, (0.0, one, rate)), (one.value / rate, one, rate), key=lambda it: it[0])
    for (node, *_), (share, one, rate) in best.items():
        level = _level(share, limits)
        if level != "pass":
            evidence = f"{told(one)}: {compared(one, rate, 'the specification')}"
            yield slow_node(one.measurement.test, (node,), level, (evidence,))


def told(one: Figure) -> str:
    """The test and its device."""
    device = one.measurement.device
    return test_name(one.measurement) + (f" on device {device}" if device is not None else "")


def _level(share: float, limits: Limits) -> Verdict:
    if share < limits.specification_failure:
        return "failure"
    return "warning" if share < limits.specification_warning else "pass"
