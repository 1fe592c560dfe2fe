"""`primus preflight` on several hosts: in Slurm, and started by hand on each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from primus_core.codec import from_json
from primus_preflight.agent.files import Measured
from tests.cluster.conftest import MakeHosts
from tests.cluster.several import Nodes
from tests.e2e.support import environment
from tests.preflight.sick import install, node, probe, run_folder
from tests.testbed import faulty_torch, sshd
from tests.testbed.containers import Engine
from tests.testbed.images import Image
from tests.testbed.slurm import Slurm, primus

pytestmark = pytest.mark.cluster

SECONDS = 240


@pytest.fixture
def folder(slurm: Slurm, tmp_path: Path) -> Iterator[Path]:
    """A user's, that all nodes see; no job is left behind in the queue."""
    yield tmp_path
    slurm.wait_idle()


def started(slurm: Slurm, folder: Path, *words: str, flags: tuple[str, ...] = ("-N3",), **env: str) -> tuple[int, str]:
    """`primus slurm srun FLAGS -- preflight WORDS` to its end; its exit code, and what it said."""
    variables = environment(folder / "out", **env)
    process = slurm.start(primus("slurm", "srun", *flags, "--", "preflight", *words), env=variables, cwd=folder)
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out + err


def nodes_in(folder: Path) -> list[str]:
    return sorted(path.name for path in run_folder(folder / "out").glob("node-*.json"))


def test_every_node_of_a_job_is_looked_at(slurm: Slurm, folder: Path) -> None:
    """Each by itself, under its name in Slurm; the job has a verdict for each."""
    code, text = started(slurm, folder, "--host")
    assert code in (0, 3), text  # what is told of this machine's own limits is the same for all
    assert [node(folder / "out", number).host for number in range(3)] == ["node1", "node2", "node3"]
    names = "".join((run_folder(folder / "out") / f"{which}_nodes.txt").read_text() for which in ("passing", "failing"))
    assert sorted(names.split()) == ["node1", "node2", "node3"]


@pytest.mark.parametrize(("how", "status"), [("hangs", "timeout"), ("tells nothing", "error")])
def test_a_sick_look_costs_its_own_node(slurm: Slurm, folder: Path, how: str, status: str) -> None:
    """On one node of three a look hangs, or tells nothing: that one is not judged well, the others are."""
    path = str(install(folder / "site"))
    code, text = started(slurm, folder, "--host", "--probe-seconds=2", PYTHONPATH=path, SICK=how, SICK_NODES="1")
    assert code == 1, text
    found = [probe(node(folder / "out", number)).status for number in range(3)]
    assert found == ["ok", status, "ok"]
    assert (run_folder(folder / "out") / "passing_nodes.txt").read_text().split() == ["node1", "node3"]


def test_a_node_that_cannot_start_is_named(slurm: Slurm, folder: Path) -> None:
    """It does not see the run's folder: it fails by name, and the others are looked at."""
    (folder / "out").mkdir()
    slurm.hosts.hide("node2", folder / "out")
    try:
        code, text = started(slurm, folder, "--host")
    finally:
        slurm.hosts.check("node2", ["umount", folder / "out"])
    assert code == 3, text
    assert nodes_in(folder) == ["node-0.json", "node-2.json"]
    assert (run_folder(folder / "out") / "failing_nodes.txt").read_text().split() == ["node2"]
    assert "node2 does not see the run directory" in text


def test_nodes_that_are_started_by_hand(make_hosts: MakeHosts, tmp_path: Path) -> None:
    """One of three never comes: it is named when the time is over, and the two others are judged."""
    hosts = make_hosts(3)
    nodes = Nodes(hosts, tmp_path / "out")
    nodes.start("preflight", "--host", "--run-id=check", "--timeout=30", only=(0, 1))
    first, second = nodes.end()
    assert (first.code, second.code) == (3, 0), first.text
    assert nodes_in(tmp_path) == ["node-0.json", "node-1.json"]
    assert "node 2" in first.text


def test_a_host_that_is_cut_off(make_hosts: MakeHosts, tmp_path: Path) -> None:
    """It is named within its limit, what it had seen before is kept, and the others are judged."""
    hosts = make_hosts(3)
    hosts.check("node3", ["ip", "link", "set", "eth0", "down"])
    nodes = Nodes(hosts, tmp_path / "out")
    nodes.start("preflight", "--network", "--run-id=check", "--join-seconds=6", "--timeout=60")
    said = nodes.end()
    assert said[0].code == 3, said[0].text
    assert nodes_in(tmp_path) == ["node-0.json", "node-1.json", "node-2.json"]
    assert (run_folder(tmp_path / "out") / "failing_nodes.txt").read_text().split() == ["node3"]


@pytest.mark.parametrize(("what", "test"), [("sums", "inter-allreduce"), ("products", "gemm")])
def test_a_host_that_gives_wrong_values(
    make_hosts: MakeHosts, tmp_path: Path, what: Literal["sums", "products"], test: str
) -> None:
    """All tests of three hosts, one of which errs in one element of its sums or products: the screen names it alone."""
    nodes = Nodes(make_hosts(3), tmp_path / "out")
    plugin = {1: {"PYTHONPATH": str(faulty_torch.install(tmp_path / "plugin", what))}}
    limits = tmp_path / "limits.yaml"
    limits.write_text("{warning: 0.98, failure: 0.99}\n")  # speeds of so little work are those of the machine's moods
    small = ("--gemm-size=128", "--sizes=64K", "--iterations=2", "--join-seconds=100", f"--limits={limits}")
    nodes.start("preflight", "--perf-test", *small, "--run-id=check", each=plugin)
    first, *_ = nodes.end()
    assert first.code == 3, first.text
    assert "failure  node2: gives wrong results" in first.text
    assert f"{test} " in first.text
    assert (run_folder(tmp_path / "out") / "failing_nodes.txt").read_text().split() == ["node2"]


def test_all_nodes_need_the_name_of_the_run(make_hosts: MakeHosts, tmp_path: Path) -> None:
    """Without it nothing is started, and the screen says what to add."""
    nodes = Nodes(make_hosts(2), tmp_path / "out")
    nodes.start("preflight", "--host", only=(0,))
    (said,) = nodes.end()
    assert (said.code, "--run-id" in said.text) == (2, True), said.text


def test_nodes_of_a_job_are_measured(slurm: Slurm, folder: Path) -> None:
    """--quick has each node multiply, and all of them sum up together; the coordinator keeps the figures."""
    code, text = started(slurm, folder, "--host", "--quick", "--sizes=256K")
    path = run_folder(folder / "out")
    measured = from_json(Measured, (path / "measurements.json").read_text(encoding="utf-8")).measurements
    assert code in (0, 3), text
    assert {one.nodes for one in measured if one.test == "gemm"} == {(0,), (1,), (2,)}
    assert (0, 1, 2) in {one.nodes for one in measured if one.test == "inter-allreduce"}
    assert {one.status for one in measured} == {"ok"}


def test_a_container_is_looked_at_from_inside(podman: Engine, plain_image: Image, tmp_path: Path) -> None:
    """In an image without Primus looks that have nothing to see are no faults."""
    podman.add(plain_image)
    flags = ["--engine=podman", "--image", plain_image.name, "--volume", plain_image.libraries]
    done = subprocess.run(
        primus("container", *flags, "--", "preflight", "--accelerator=cpu", "--gpu"),
        env={**environment(tmp_path / "out"), **podman.env},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    seen = node(tmp_path / "out")
    assert done.returncode == 1, done.stdout + done.stderr  # for there is no accelerator, and --gpu asks for one
    assert {one.status for one in seen.probes} <= {"ok", "unavailable"}, seen.probes
    assert "no accelerator" in done.stdout


@pytest.mark.skipif(bool(sshd.lacking()), reason=sshd.lacking())
def test_hosts_that_are_reached_by_ssh(make_hosts: MakeHosts, tmp_path: Path) -> None:
    """One of three has no server: it is named with what ssh says of it, and the two others are looked at."""
    hosts, keys = make_hosts(3), sshd.Keys(tmp_path / "ssh")
    (tmp_path / "launchers.yaml").write_text(f"ssh: {{config: {keys.config()}}}\n")
    words = ("--launcher=ssh", "--hosts=node1,node2,node3", "--launcher-config=launchers.yaml", "--host")
    with sshd.servers(hosts, keys, ("node1", "node2")):
        started = hosts.start("node1", primus("preflight", *words), env=environment(tmp_path / "out"), cwd=tmp_path)
        out, err = started.communicate(timeout=SECONDS)
    assert started.returncode == 3, out + err
    assert nodes_in(tmp_path) == ["node-0.json", "node-1.json"]
    assert (run_folder(tmp_path / "out") / "failing_nodes.txt").read_text().split() == ["node3"]
    assert "Connection refused" in out
