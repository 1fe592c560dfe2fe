"""Verdicts: what is slow, missing, wrong or different is named, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_preflight.judging import Limits, Report, judge
from primus_preflight.judging.blame import blame_groups, blame_pairs
from primus_preflight.merging import merged
from primus_preflight.model import Gathered, Group, Measurement, Node, Probe, ProbeStatus
from tests.preflight.clusters import cluster, host

NODES = 8


def judged(gathered: Gathered, baseline: Gathered | None = None) -> Report:
    return judge(gathered, Limits(), baseline)


def verdicts(report: Report) -> dict[int, str]:
    """Of the nodes that do not pass."""
    return {one.node: one.verdict for one in report.nodes if one.verdict != "pass"}


def kinds(report: Report) -> set[tuple[str, tuple[int, ...]]]:
    return {(fault.kind, fault.nodes) for fault in report.faults}


def few(
    *measurements: Measurement, nodes: int = 4, tests: tuple[str, ...] = (), groups: tuple[Group, ...] = ()
) -> Gathered:
    """Nodes that have seen nothing else."""
    looked = Probe(name="system", group="host", status="ok")
    return Gathered(
        run_id="few",
        expected_nodes=nodes,
        nodes=tuple(Node(node=node, host=host(node), probes=(looked,), complete=True) for node in range(nodes)),
        measurements=measurements,
        tests=tests,
        groups=groups,
    )


def with_probe(gathered: Gathered, node: int, probe: Probe) -> Gathered:
    nodes = (evolve(one, probes=(*one.probes, probe)) if one.node == node else one for one in gathered.nodes)
    return evolve(gathered, nodes=tuple(nodes))


def gemm(node: int, *values: float) -> Measurement:
    return Measurement(test="gemm", nodes=(node,), values=values, unit="TFLOP/s")


@pytest.mark.parametrize("seed", range(5))
def test_healthy_nodes_with_noise_have_no_fault(seed: int) -> None:
    """Figures that scatter by two percent accuse nobody."""
    report = judged(cluster(NODES, seed=seed))
    assert report.faults == ()
    assert (report.verdict, report.exit_code) == ("pass", 0)


def test_noisy_nodes_have_no_failure() -> None:
    """Where each figure scatters by a fifth, as on shared machines, nothing fails."""
    assert judged(cluster(NODES, noise=0.2)).exit_code == 0


def test_slow_and_missing_nodes_and_a_slow_link_are_told_apart() -> None:
    """Each fault is named where it is; the ends of a slow link are doubtful only, and the others pass."""
    report = judged(cluster(NODES, computes={3: 0.6}, sends={5: 0.25}, links={(1, 2): 0.5}, missing=[6]))
    assert verdicts(report) == {3: "failure", 5: "failure", 6: "missing", 1: "warning", 2: "warning"}
    assert kinds(report) == {("slow", (3,)), ("slow", (5,)), ("missing", (6,)), ("link", (1, 2))}
    assert report.exit_code == 3


@pytest.mark.parametrize(("part", "verdict"), [(0.95, "pass"), (0.85, "warning"), (0.7, "failure")])
def test_a_node_is_judged_by_the_best_of_its_peers(part: float, verdict: str) -> None:
    """More than 10 % worse is a warning, more than 25 % a failure."""
    report = judged(few(*(gemm(node, *[100.0 * (part if node == 2 else 1)] * 5) for node in range(4)), tests=("gemm",)))
    assert verdicts(report) == ({} if verdict == "pass" else {2: verdict})


def test_a_node_that_was_fast_once_is_doubtful_only() -> None:
    """One repetition at full speed shows that the part works: something else ran on the node."""
    report = judged(few(*(gemm(node, 100, 100, 100) for node in range(3)), gemm(3, 60, 60, 99), tests=("gemm",)))
    assert verdicts(report) == {3: "warning"}


def test_an_all_reduce_that_is_slow_by_one_node_names_it() -> None:
    """Who is in a good group is innocent; the one that is in slow groups only is named."""
    groups = {(0, 1, 2, 3): 10.0, (0, 1): 40.0, (2, 3): 10.0, (2, 0): 40.0, (3, 1): 10.0}
    report = judged(
        few(
            *(
                Measurement(test="inter-allreduce", nodes=group, ranks=len(group), values=(value,))
                for group, value in groups.items()
            )
        )
    )
    assert verdicts(report) == {3: "failure"}


def test_blame_survives_thousands_of_pairs() -> None:
    """Among sampled pairs of 4,096 nodes, bad nodes and bad links are exactly those that are bad."""
    pairs = [(node, (node + 7 * step) % 4096) for node in range(4096) for step in range(1, 9)]
    bad = {pair for pair in pairs if {17, 900, 4000} & {*pair}} | {pairs[100]}
    blame = blame_pairs(bad, pairs)
    assert (blame.nodes, blame.links) == ((17, 900, 4000), (pairs[100],))


def test_two_nodes_that_fail_together_are_both_suspects() -> None:
    """Where no other node tells which of two is bad, neither is called good."""
    assert blame_groups([(0, 1)], []).unclear == ((0, 1),)
    report = judged(few(Measurement(test="inter-allreduce", nodes=(0, 1), status="error", error="refused"), nodes=2))
    assert verdicts(report) == {0: "failure", 1: "failure"}


@pytest.mark.parametrize(("status", "code"), [("error", 1), ("timeout", 1)])
def test_a_look_that_failed_is_never_a_pass(status: ProbeStatus, code: int) -> None:
    """The node has a verdict of its own, and the exit code tells it."""
    report = judged(with_probe(few(), 1, Probe(name="pcie", group="host", status=status, error="it hung")))
    assert verdicts(report) == {1: "error"}
    assert report.exit_code == code


def test_what_is_not_there_is_a_fault_only_where_it_was_asked_for() -> None:
    """A node without accelerators passes, unless --gpu asks for them."""
    nothing = Probe(name="accelerators", group="gpu", status="unavailable", error="no device files")
    assert judged(with_probe(few(nodes=1), 0, nothing)).exit_code == 0
    asked = judged(with_probe(few(nodes=1, groups=("gpu",)), 0, nothing))
    assert (asked.exit_code, asked.faults[0].evidence) == (1, ("accelerators: no device files",))


def test_the_same_finding_on_many_nodes_is_one_fault() -> None:
    """A page of the same line is none that is read."""
    finding = Finding(check="host.pages", severity="warning", summary="huge pages are off", cause="runtime")
    gathered = few()
    for node in (0, 2, 3):
        gathered = with_probe(gathered, node, Probe(name="pages", group="host", status="ok", findings=(finding,)))
    assert kinds(judged(gathered)) == {("finding", (0, 2, 3))}


def test_a_clock_is_compared_with_the_median_of_all() -> None:
    """Also where it is the coordinator's own clock that is wrong."""
    report = judged(few(*(Measurement(test="clock", nodes=(0, node), values=(90.0,), unit="s") for node in (1, 2, 3))))
    assert verdicts(report) == {0: "failure"}
    assert "90 s behind" in report.faults[0].evidence[0]


def test_wrong_values_and_lost_nodes_are_failures() -> None:
    """A node that computes wrongly and one that left the meeting are named."""
    wrong = Measurement(test="inter-allreduce", nodes=(1,), status="wrong", error="3 of 1024 values")
    gone = Measurement(test="meeting", nodes=(2,), status="timeout", error="did not come")
    assert verdicts(judged(few(wrong, gone))) == {1: "failure", 2: "failure"}


def test_a_node_that_nobody_reaches_is_bad_and_not_what_it_says_of_others() -> None:
    """Connections in both directions fail with one node: it is named, and no link."""
    reach = [
        Measurement(
            test="reach",
            nodes=(a, b),
            unit="s",
            status="error" if 3 in (a, b) else "ok",
            error="timed out" * (3 in (a, b)),
        )
        for a in range(4)
        for b in range(4)
        if a != b
    ]
    assert kinds(judged(few(*reach))) == {("unreachable", (3,))}


def test_a_node_without_a_figure_that_was_asked_for_is_no_pass() -> None:
    """A test that is silent about a node says nothing good of it; one that makes no sense is asked of nobody."""
    report = judged(few(gemm(0, 1.0), gemm(1, 1.0), tests=("gemm", "intra-allreduce"), nodes=3))
    assert verdicts(report) == {2: "error"}


def test_nodes_that_differ_are_doubtful_and_those_that_lack_devices_fail() -> None:
    """The odd ones are named with what they have and what most have."""
    gathered = few()
    for node in range(4):
        facts = {"kernel": "6.1" if node == 2 else "6.8"}
        gathered = with_probe(gathered, node, Probe(name="system", group="host", status="ok", facts=facts))
    nodes = tuple(evolve(node, devices=7 if node.node == 1 else 8) for node in gathered.nodes)
    assert verdicts(judged(evolve(gathered, nodes=nodes))) == {1: "failure", 2: "warning"}


def test_the_specification_finds_what_all_nodes_share() -> None:
    """Where every device is slow, no peer tells, but the data sheet does."""
    slow = cluster(4, computes=dict.fromkeys(range(4), 0.3))
    assert verdicts(judged(slow)) == dict.fromkeys(range(4), "failure")


def on_network(gathered: Gathered, speed: int | None, ports: int = 0) -> Gathered:
    """Nodes whose one interface has a speed in Mbit/s, and as fast RDMA ports."""
    port: dict[str, Value] = {"state": "ACTIVE", "gbps": (speed or 0) / 1000}
    probes = [
        Probe(name="interfaces", group="network", status="ok", facts={"speed_mbps": {"eth0": speed, "eth1": 1000}}),
        Probe(name="routes", group="network", status="ok", facts={"peers": {"a": {"interface": "eth0"}}}),
        Probe(name="rdma", group="network", status="ok", facts={"ports": {f"m{one}:1": port for one in range(ports)}}),
    ]
    for number in range(len(gathered.nodes)):
        for probe in probes:
            gathered = with_probe(gathered, number, probe)
    return gathered


@pytest.mark.parametrize(
    ("speed", "gbs", "verdict"),
    [(1000, 0.11, "pass"), (1000, 0.04, "warning"), (1000, 0.011, "failure"), (None, 0.011, "pass")],
)
@pytest.mark.parametrize("test", ["inter-p2p", "inter-allreduce"])
def test_the_speed_of_interfaces_finds_what_all_networks_share(
    test: str, speed: int | None, gbs: float, verdict: str
) -> None:
    """Where every link is slow by the same part, that of the interface tells; where it is not known nothing does."""
    pairs = [(first, second) for first in range(4) for second in range(4) if first != second]
    figures = [Measurement(test=test, nodes=pair, ranks=2, size_bytes=1 << 23, values=(gbs,) * 5) for pair in pairs]
    report = judged(on_network(few(*figures), speed))
    assert verdicts(report) == ({} if verdict == "pass" else dict.fromkeys(range(4), verdict))
    assert {one.specified for one in report.comparisons} == {speed and speed / 8000}


def test_one_connection_does_not_fill_a_fast_interface_and_rdma_does() -> None:
    """TCP is not held to 100 Gbit/s; RDMA is, one port for transfers and all together for sums."""
    slow = Measurement(test="inter-p2p", nodes=(0, 1), ranks=2, values=(1.2,) * 5)
    assert verdicts(judged(on_network(few(slow, nodes=2), 100_000))) == {}
    network = on_network(cluster(4), 400_000, ports=8)
    assert verdicts(judged(network)) == {}
    assert {one.test: one.specified for one in judged(network).comparisons if one.members > 1} == {
        "inter-p2p": 50.0,
        "inter-allreduce": 400.0,
    }
    assert verdicts(judged(on_network(cluster(4, sends=dict.fromkeys(range(4), 0.2)), 400_000, ports=8))) == (
        dict.fromkeys(range(4), "failure")
    )


@pytest.mark.parametrize(("machines", "found"), [(["a"] * 4, {}), (["a", "b", "c", "d"], {2: "failure"})])
def test_nodes_of_one_machine_are_no_peers_in_what_they_compute(machines: list[str], found: dict[int, str]) -> None:
    """They share its processors; hosts of their own do not."""
    gathered = few(*(gemm(node, *[40.0 if node == 2 else 100.0] * 5) for node in range(4)), tests=("gemm",))
    for node, machine in enumerate(machines):
        gathered = with_probe(
            gathered, node, Probe(name="meeting", group="network", status="ok", facts={"machine": machine})
        )
    assert verdicts(judged(gathered)) == found


def test_a_baseline_finds_what_became_slower() -> None:
    """All nodes are slower than in an earlier preflight of the same hosts; without it they are all the same."""
    now, earlier = cluster(4), cluster(4, computes=dict.fromkeys(range(4), 1.5))
    assert verdicts(judged(now)) == {}
    assert verdicts(judged(now, earlier)) == dict.fromkeys(range(4), "failure")


def test_preflights_of_other_nodes_are_put_together() -> None:
    """Nodes keep their hosts and figures, and a host that was looked at again counts as it is now."""
    again = cluster(2)
    hosts = ("new", host(3))
    nodes = tuple(evolve(one, host=name, ended=2e9) for one, name in zip(again.nodes, hosts, strict=True))
    later = evolve(again, run_id="later", hosts=hosts, nodes=nodes, tests=("gemm",))
    first = evolve(cluster(4, computes={1: 0.6, 3: 0.6}), tests=("gemm",))
    report = judged(merged([first, later]))
    assert report == judged(merged([later, first]))
    assert {one.host: one.verdict for one in report.nodes if one.verdict != "pass"} == {host(1): "failure"}


def test_limits_are_read_from_a_file(tmp_path: Path) -> None:
    """What the file names counts; the rest stays."""
    path = tmp_path / "limits.yaml"
    path.write_text("failure: 0.5\nclock_failure: 100\n")
    assert Limits.of(str(path)) == Limits(failure=0.5, clock_failure=100.0)


@pytest.mark.parametrize("text", ["failures: 0.5", "failure: 50", "failure: yes", "[1]"])
def test_a_wrong_limit_is_refused(tmp_path: Path, text: str) -> None:
    """A name that does not exist, a part above 1 and what is no number are errors."""
    path = tmp_path / "limits.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        Limits.of(str(path))
