"""What looks at single nodes have found, and looks and tests that could not be done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from primus_core.outcome import Finding
from primus_preflight.judging.names import test_name
from primus_preflight.judging.report import Fault, Verdict
from primus_preflight.model import Gathered, Measurement, Node, Probe
from primus_preflight.performance.tokens import Trial, tests_named

_LEVELS: dict[str, Verdict] = {"error": "failure", "warning": "warning"}
_ABSENT = {
    "gpu": "has no accelerator to look at, and --gpu asks for one",
    "network": "has no network to look at, and --network asks for one",
}
_WRONG_REMEDY = "Take the node out: it computes or transfers wrongly. Look at ECC errors and at the kernel's log."
_FAILED_REMEDY = "Look at the node's log of the preflight and at the kernel's (dmesg), then run the test again."


def looked(gathered: Gathered) -> Iterator[Fault]:
    """Faults of all nodes' looks."""
    for node in gathered.nodes:
        for probe in node.probes:
            yield from _probe(node.node, probe)
        yield from _nothing_there(node, gathered)


def _probe(node: int, probe: Probe) -> Iterator[Fault]:
    device = "" if probe.device is None else f"device {probe.device}: "
    if probe.status in ("error", "timeout"):
        yield Fault(
            kind="probe",
            level="error",
            what=f"the look at {probe.name!r} could not be taken",
            nodes=(node,),
            evidence=(f"{device}{probe.error or probe.status}",),
            remedy="Find out why: until it can be taken, nothing says that the node is good.",
        )
    for finding in probe.findings:
        if finding.severity in _LEVELS:
            yield _finding(node, finding, device)


def _finding(node: int, finding: Finding, device: str) -> Fault:
    return Fault(
        kind="finding",
        level=_LEVELS[finding.severity],
        what=finding.summary,
        nodes=(node,),
        evidence=(f"{device}{finding.evidence}",) if finding.evidence else (),
        remedy=finding.remedy,
    )


def _nothing_there(node: Node, gathered: Gathered) -> Iterator[Fault]:
    """A group that was asked for, of which there is nothing on the node."""
    for group in gathered.groups:
        probes = [probe for probe in node.probes if probe.group == group]
        if all(probe.status == "unavailable" for probe in probes):
            what = _ABSENT.get(group, f"told nothing of the group {group!r}")
            evidence = tuple(sorted({f"{probe.name}: {probe.error}" for probe in probes}))
            remedy = "Is the driver loaded, and may this user and container see the devices?" if group == "gpu" else ""
            yield Fault(kind="absent", level="error", what=what, nodes=(node.node,), evidence=evidence, remedy=remedy)


def failed_alone(measurements: Sequence[Measurement]) -> Iterator[Fault]:
    """Tests that failed on one node, or in which one node had wrong values."""
    for one in measurements:
        if len(one.nodes) != 1 or one.status == "ok" or one.test == "meeting":
            continue
        device = f" on device {one.device}" if one.device is not None else ""
        evidence = (f"{test_name(one)}{device}: {one.error or one.status}",)
        if one.status == "wrong":
            what = "gives wrong results"
            yield Fault(
                kind="wrong", level="failure", what=what, nodes=one.nodes, evidence=evidence, remedy=_WRONG_REMEDY
            )
            continue
        level: Verdict = "failure" if one.status == "timeout" and one.test != "workers" else "error"
        what = f"could not run the test {one.test}" if one.test != "workers" else "could not start its test processes"
        yield Fault(kind="test", level=level, what=what, nodes=one.nodes, evidence=evidence, remedy=_FAILED_REMEDY)


def untested(gathered: Gathered, measurements: Sequence[Measurement], accused: frozenset[int]) -> Iterator[Fault]:
    """Nodes for which a test that was asked for gave nothing, and that have no fault that tells why."""
    tested: dict[str, set[int]] = {}
    for one in measurements:
        tested.setdefault(one.test, set()).update(one.nodes)
    for trial in tests_named(gathered.tests):
        able = {node.node for node in gathered.nodes if applies(trial, node, len(gathered.nodes))}
        without = tuple(sorted(able - tested.get(trial.name, set()) - accused))
        if without:
            what = f"the test {trial.name} gave no figure"
            yield Fault(kind="untested", level="error", what=what, nodes=without, remedy=_FAILED_REMEDY)


def applies(trial: Trial, node: Node, nodes: int) -> bool:
    """Whether there is enough for the test to make sense."""
    if trial.scope in ("nodes", "pair"):
        return nodes > 1
    return trial.scope == "device" or node.devices > 1
