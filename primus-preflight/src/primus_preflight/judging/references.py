"""Measurements beside what the hardware is specified for, and beside an earlier preflight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from primus_core.hardware import AcceleratorModel, find_model
from primus_preflight.judging.limits import Limits
from primus_preflight.judging.middle import median
from primus_preflight.judging.names import INSIDE, MEMORY, Names, test_name, what_is_slow
from primus_preflight.judging.peers import Figure, compared, figures_of, judged
from primus_preflight.judging.performance import slow_node
from primus_preflight.judging.report import Fault, Verdict
from primus_preflight.model import Gathered, Measurement, Node

_ALL_LINKS = 8
"""Fewer devices use only some of the links of each."""


def device_models(gathered: Gathered) -> dict[int, str]:
    """Names of the accelerators, by node; nodes that tell none are left out."""
    found = {node.node: _device_model(node) for node in gathered.nodes}
    return {node: name for node, name in found.items() if name}


def _device_model(node: Node) -> str:
    told = {probe.name: probe.facts for probe in reversed(node.probes)}
    models = told.get("accelerators", {}).get("models")
    first = models[0] if isinstance(models, list) and models else told.get("device", {}).get("model")
    return str(first or "")


def specified(one: Measurement, model: AcceleratorModel | None) -> float | None:
    """The rate that the hardware is specified for, in the measurement's unit; None where nothing is known."""
    if model is None:
        return None
    if one.test == "gemm":
        rates = {"bf16": model.bf16_tflops, "fp16": model.bf16_tflops, "fp8": model.fp8_tflops}
        return rates.get(one.dtype)
    if one.test in MEMORY:
        return model.memory_gbs
    if one.test in INSIDE and one.ranks >= _ALL_LINKS:
        return model.link_gbs / 2  # it counts both directions together
    return None


def below_specification(
    measurements: Sequence[Measurement], models: Mapping[int, str], limits: Limits
) -> Iterator[Fault]:
    """Nodes on which no size of a test comes near what the hardware is made for."""
    best: dict[tuple[object, ...], Figure] = {}
    for one in figures_of(measurement for measurement in measurements if len(measurement.nodes) == 1):
        test = one.measurement
        key = (test.test, test.nodes, test.device, test.dtype)
        if key not in best or best[key].value < one.value:
            best[key] = one
    for one in best.values():
        rate = specified(one.measurement, find_model(models.get(one.measurement.nodes[0], "")))
        level = _share_level(one.value / rate, limits) if rate else "pass"
        if rate and level != "pass":
            evidence = f"{_name(one)}: {compared(one, rate, 'the specification')}"
            yield slow_node(one.measurement.test, one.measurement.nodes, level, (evidence,))


def _share_level(share: float, limits: Limits) -> Verdict:
    if share < limits.specification_failure:
        return "failure"
    return "warning" if share < limits.specification_warning else "pass"


def below_baseline(
    measurements: Sequence[Measurement], baseline: Gathered | None, names: Names, limits: Limits
) -> Iterator[Fault]:
    """What was faster in an earlier preflight: on the same hosts, or where they were not there, on others."""
    if baseline is None:
        return
    earlier = _Earlier(baseline)
    for one in figures_of(measurements):
        test = one.measurement
        reference = earlier.figure(test, tuple(map(names.host, test.nodes)))
        level = "pass" if reference is None else judged(one, reference, limits, earlier.scatter(test))
        if reference is None or level == "pass":
            continue
        where = "" if len(test.nodes) == 1 else f" of {names.some(test.nodes)}"
        evidence = (f"{_name(one)}{where}: {compared(one, reference, 'the baseline')}",)
        remedy = what_is_slow(test.test)[1]
        alone = len(test.nodes) == 1
        yield Fault(
            kind="baseline",
            level=level,
            what="is slower than in the baseline" if alone else "groups of nodes are slower than in the baseline",
            nodes=test.nodes if alone else (),
            evidence=evidence,
            remedy=remedy,
        )


def _name(one: Figure) -> str:
    device = one.measurement.device
    return test_name(one.measurement) + (f" on device {device}" if device is not None else "")


class _Earlier:
    """Figures of an earlier preflight, by what can be compared."""

    def __init__(self, gathered: Gathered) -> None:
        names = Names.of(gathered)
        self._own: dict[tuple[object, ...], float] = {}
        self._alike: dict[tuple[object, ...], list[Figure]] = {}
        for one in figures_of([*gathered.measurements, *(m for node in gathered.nodes for m in node.measurements)]):
            test = one.measurement
            if test.unit != "s":
                self._own[self._key(test), tuple(map(names.host, test.nodes))] = one.value
                self._alike.setdefault(self._key(test), []).append(one)

    def figure(self, one: Measurement, hosts: tuple[str, ...]) -> float | None:
        alike = self._alike.get(self._key(one))
        others = median(figure.value for figure in alike) if alike else None
        return self._own.get((self._key(one), hosts), others)

    def scatter(self, one: Measurement) -> float:
        return median(figure.scatter for figure in self._alike[self._key(one)])

    @staticmethod
    def _key(one: Measurement) -> tuple[object, ...]:
        return one.test, one.size_bytes, one.dtype, one.ranks, one.device, len(one.nodes)
