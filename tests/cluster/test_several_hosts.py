"""Direct mode on several hosts, each started by hand: what goes wrong is named everywhere, and ends everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests import golden
from tests.cluster.several import Nodes, Said
from tests.e2e.support import EXAMPLE, QUICK, environment, wait_until
from tests.testbed.hosts import Hosts

pytestmark = pytest.mark.cluster

RUN = ("run", EXAMPLE, "--nproc", "1", *QUICK, "global_batch_size=12")
APART = ("--run-id", "apart")
"""With MASTER_PORT: what nodes without a shared workspace need."""
SECONDS = 60
"""In so many, mistakes are named on every node, on a busy machine: half of what the nodes would wait for each other."""
SERVER = "import socket, time; s = socket.create_server(('', 29500)); print('up', flush=True); time.sleep(600)"

PROGRAM = """\
import os, sys, time, torch
from torch import distributed
distributed.init_process_group("gloo")
for step in range(10000):
    if step == 3:
        open(f"{sys.argv[2]}/up-{distributed.get_rank()}", "w").close()
        if sys.argv[1] == "raises" and distributed.get_rank() == 1:
            raise ValueError("a batch without tokens")
        if sys.argv[1] == "ends":
            break
    distributed.all_reduce(torch.ones(4))
    time.sleep(0.01)
distributed.destroy_process_group()
"""

VARIES = {
    r"\[W[^\]\n]*\] \[c10d\][^\n]*": "<a warning of torch>",
    r"its connection broke: [^\n]*": "it closed the connection",
}

Each = Mapping[int, Mapping[str, str]] | None
MakeNodes = Callable[[int], Nodes]


@pytest.fixture
def make_nodes(make_hosts: Callable[[int], Hosts], tmp_path: Path) -> MakeNodes:
    return lambda count: Nodes(make_hosts(count), tmp_path / "workspace")


def check(ended: Sequence[Said], *told: str, code: int = 2) -> None:
    """Every node ended soon, with this exit code and one screen that tells it."""
    for one in ended:
        assert one.code == code, one.text
        assert all(words in one.err for words in told), one.text
        assert len(one.err.splitlines()) <= 24
        assert "Traceback" not in one.text
    assert ended[-1].seconds < SECONDS


def show_devices(nodes: Nodes, name: str, folder: Path, count: int) -> None:
    """Have a host see device files of so many accelerators, and those that every program needs."""
    folder.mkdir()
    for needed in ("null", "urandom", "random", "zero"):
        nodes.hosts.check(name, ["cp", "-a", f"/dev/{needed}", folder / needed])
    for number in range(count):
        (folder / f"nvidia{number}").touch()
    nodes.hosts.show(name, folder, Path("/dev"))


def test_an_address_that_is_not_node_0s(make_nodes: MakeNodes) -> None:
    """MASTER_ADDR that names another host is told with the address, and the host it should name."""
    nodes = make_nodes(2)
    nodes.start(*RUN, MASTER_ADDR="node2")
    check(nodes.end(), "MASTER_ADDR is node2", "node1")


def test_names_of_node_0(make_nodes: MakeNodes, tmp_path: Path) -> None:
    """Its full name will do, and so will another address of it; each node may use the one that it knows."""
    nodes = make_nodes(2)
    for number, name in enumerate(nodes.names):
        nodes.hosts.check(name, ["ip", "address", "add", f"10.88.0.{number + 1}/24", "dev", "eth0"])
    each = {0: {"MASTER_ADDR": "node1.cluster.test"}, 1: {"MASTER_ADDR": "10.88.0.1"}}
    start_program(nodes, tmp_path, "ends", each=each)
    ended = nodes.end()
    assert [one.code for one in ended] == [0, 0], ended[0].text + ended[1].text


def test_dry_runs_and_plans_wait_for_nobody(make_nodes: MakeNodes, tmp_path: Path) -> None:
    """Each node shows its own commands, and writes nothing; pasted on the nodes, they are one run."""
    nodes = make_nodes(2)
    nodes.start("plan", *RUN[1:], only=(1,))
    (planned,) = nodes.end()
    assert json.loads(planned.out)["target"]["nodes"] == 2
    start_program(nodes, tmp_path, "ends", "--run-id", "pasted", "--dry-run")
    shown = nodes.end()
    assert not nodes.workspace.exists()
    for number, one in enumerate(shown):
        assert one.code == 0, one.text
        assert f"--nnodes=2 --max-restarts=0 --log-dir={nodes.workspace}" in one.out
        assert f"--node-rank={number} --master-addr=node1 --master-port=29500" in one.out
        nodes.paste(number, one.out)
    done = nodes.end()
    assert [one.code for one in done] == [0, 0], done[0].text + done[1].text
    ranks = [json.loads(path.read_text()) for path in sorted(nodes.workspace.rglob("runs/pasted/ranks/rank-?.json"))]
    assert [(one["host"], one["exit_code"]) for one in ranks] == [("node1", 0), ("node2", 0)]


def test_two_nodes_with_one_number(make_nodes: MakeNodes) -> None:
    """Both hosts are named, also to the third, which has done nothing wrong."""
    nodes = make_nodes(3)
    nodes.start(*RUN, each={2: {"NODE_RANK": "1"}})
    check(nodes.end(), "two nodes have NODE_RANK 1", "node2", "node3")


def test_two_nodes_that_lead(make_nodes: MakeNodes) -> None:
    """The second node 0 is told, and so is the first."""
    nodes = make_nodes(2)
    nodes.start(*RUN, each={1: {"NODE_RANK": "0"}})
    check(nodes.end(), "NODE_RANK", "node1", "node2")


def test_a_number_out_of_range(make_nodes: MakeNodes) -> None:
    """It is told on all nodes at once, although that one is none of them."""
    nodes = make_nodes(2)
    nodes.start(*RUN, each={1: {"NODE_RANK": "2"}})
    check(nodes.end(), "NODE_RANK is 2", "0 to 1")


@pytest.mark.parametrize("failing", [0, 1])
def test_a_node_that_fails_while_it_plans(failing: int, make_nodes: MakeNodes, tmp_path: Path) -> None:
    """The other nodes end with it, and say what it said: they wait for nobody. They may know it by the section only."""
    nodes = make_nodes(3)
    path = tmp_path / "exp.yaml"
    path.write_text(EXAMPLE.read_text().replace("direct:\n", "direct:\n  nnodes: 3\n  master_addr: node1\n"))
    nodes.start("run", path, *RUN[2:], each={failing: {"PRIMUS_STDLIB": "/nowhere"}}, NNODES="", MASTER_ADDR="")
    check(nodes.end(), "/nowhere")


def test_different_numbers_of_devices(make_nodes: MakeNodes, tmp_path: Path) -> None:
    """Two hosts with the same kind of accelerator, but not as many of them, are told by their device files."""
    nodes = make_nodes(2)
    for count, name in enumerate(nodes.names, 1):
        show_devices(nodes, name, tmp_path / name, count)
    nodes.start("run", EXAMPLE, *QUICK, "global_batch_size=12", "direct.gpus_per_node=!unset")
    check(nodes.end(), "ranks on the node: 1 on node 0 (node1), 2 on node 1 (node2)")


def test_different_numbers_of_ranks(make_nodes: MakeNodes) -> None:
    """Both numbers are told, each with its host."""
    nodes = make_nodes(2)
    nodes.start(
        "run", EXAMPLE, *QUICK, "global_batch_size=12", each={0: {"GPUS_PER_NODE": "1"}, 1: {"GPUS_PER_NODE": "2"}}
    )
    check(nodes.end(), "ranks on the node: 1 on node 0 (node1), 2 on node 1 (node2)")


def test_another_accelerator(make_nodes: MakeNodes, tmp_path: Path) -> None:
    """A host whose driver shows no device is found out by its device files."""
    nodes = make_nodes(2)
    show_devices(nodes, "node2", tmp_path / "devices", 1)
    nodes.start(*RUN)
    check(nodes.end(), "accelerator: cpu on node 0 (node1), cuda on node 1 (node2)")


def test_different_versions(make_nodes: MakeNodes, tmp_path: Path) -> None:
    """A distribution of another version on one host is told with both versions."""
    nodes = make_nodes(2)
    installed = distribution("primus-preflight")
    metadata = Path(str(installed.locate_file(next(f for f in installed.files or () if f.name == "METADATA"))))
    changed = tmp_path / "METADATA"
    changed.write_text(metadata.read_text().replace(f"\nVersion: {installed.version}", "\nVersion: 0.0.7"))
    nodes.hosts.show("node2", changed, metadata)
    nodes.start(*RUN)
    check(nodes.end(), f"primus-preflight: {installed.version} on node 0 (node1), 0.0.7 on node 1 (node2)")


def test_a_workspace_that_is_not_shared(make_nodes: MakeNodes) -> None:
    """The node that does not see what node 0 wrote is named, with the path."""
    nodes = make_nodes(2)
    nodes.hosts.hide("node2", nodes.workspace)
    nodes.start(*RUN)
    told = (
        "the workspace is not shared: node 1 (node2)",
        str(nodes.workspace),
        "workspace:",
        "--run-id",
        "MASTER_PORT",
    )
    check(nodes.end(), *told)
    nodes.start(*RUN, *APART, each={0: {"MASTER_PORT": "29500"}})
    check(nodes.end(), *told)


def test_checkpoints_onto_folders_that_are_not_shared(make_nodes: MakeNodes) -> None:
    """Each node would have its own ranks' part of them: that is refused before anything starts, on both nodes."""
    nodes = make_nodes(2)
    nodes.hosts.hide("node2", nodes.workspace)
    nodes.start(*RUN, "save_interval=2", *APART, MASTER_PORT="29555")
    check(nodes.end(), "saved in pieces: node 1 (node2)", "llama-tiny/checkpoints", "save:")


def test_a_port_in_use(make_nodes: MakeNodes) -> None:
    """The port and its host are named to both nodes."""
    nodes = make_nodes(2)
    server = nodes.hosts.start("node1", [sys.executable, "-c", SERVER])
    assert server.stdout
    assert server.stdout.readline() == "up\n"
    nodes.start(*RUN)
    try:
        ended = nodes.communicate()
    finally:
        nodes.hosts.signal(server, 9)
        server.communicate()
    check(ended, "29500", "MASTER_PORT", code=3)


def test_a_node_that_never_came(make_nodes: MakeNodes) -> None:
    """It is named by its number, with the time that was waited; so is a node 0 that is not there."""
    nodes = make_nodes(3)
    nodes.start(*RUN, only=(0, 2), NODES_WAIT_SECONDS="6")
    check(nodes.end(), "node 1 did not come in 6 s", "node 0 (node1), node 2 (node3)", code=3)
    nodes.start(*RUN, only=(1,), NODES_WAIT_SECONDS="2")
    check(nodes.end(), "node 0 did not answer in 2 s", "node1:29500", code=3)


def test_missing_variables(make_nodes: MakeNodes) -> None:
    """What every node needs to know is told by name."""
    nodes = make_nodes(1)
    for name in ("NODE_RANK", "MASTER_ADDR"):
        nodes.start(*RUN, NNODES="2", each={0: {name: ""}})
        check(nodes.end(), f"{name} is not set, and the run has 2 nodes")


def start_program(nodes: Nodes, tmp_path: Path, fault: str, *options: str, each: Each = None, **env: str) -> None:
    """Ranks that agree in every step, one on each host."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    nodes.start("direct", "--nproc", "1", *options, "--script", program, "--", fault, tmp_path, each=each, **env)


def wait_for_ranks(nodes: Nodes, tmp_path: Path) -> None:
    wait_until(lambda: all((tmp_path / f"up-{rank}").exists() for rank in range(len(nodes.names))), "all ranks")


def test_a_rank_that_fails_ends_all_nodes(make_nodes: MakeNodes, tmp_path: Path) -> None:
    """Node 0 prints the screen of the rank of another host; that host says in one line that the run failed."""
    nodes = make_nodes(2)
    start_program(nodes, tmp_path, "raises")
    wait_for_ranks(nodes, tmp_path)
    since = time.monotonic()
    first, second = nodes.end()
    assert time.monotonic() - since < SECONDS
    assert (first.code, second.code) == (3, 3), first.text + second.text
    assert "a batch without tokens" in first.out
    assert "rank 1" in first.out
    assert "node2" in first.out
    assert "node 0 tells why" in second.out
    assert "error: " not in second.text
    golden.check(first.out[first.out.index("error: ") :], "host-rank-raises", replace=VARIES)


def test_a_rank_that_fails_on_a_node_with_files_of_its_own(make_nodes: MakeNodes, tmp_path: Path) -> None:
    """Without a shared workspace the screen is the same: node 0 is sent the report of the rank that failed first."""
    nodes = make_nodes(2)
    nodes.hosts.hide("node2", nodes.workspace)
    start_program(nodes, tmp_path, "raises", *APART, MASTER_PORT="29555")
    wait_for_ranks(nodes, tmp_path)
    since = time.monotonic()
    first, second = nodes.end()
    assert time.monotonic() - since < SECONDS
    assert (first.code, second.code) == (3, 3), first.text + second.text
    golden.check(first.out[first.out.index("error: ") :], "host-rank-raises", replace=VARIES)
    find = ["find", nodes.workspace, "-name", "report.json", "-o", "-name", "rank-*.json", "-o", "-name", "debug.log"]
    there = sorted(Path(line).name for line in nodes.hosts.check("node2", find).splitlines())
    assert there == ["debug.log", "rank-1.json", "report.json"]
    assert len(list(nodes.workspace.rglob("debug.log"))) == 1


@pytest.mark.parametrize("loss", ["crash", "cut"])
def test_a_host_that_is_lost(loss: str, make_nodes: MakeNodes, tmp_path: Path) -> None:
    """It is named, whether it died or its network was cut, and the ranks of all others end."""
    nodes = make_nodes(2)
    start_program(nodes, tmp_path, "goes on")
    wait_for_ranks(nodes, tmp_path)
    since = time.monotonic()
    getattr(nodes.hosts, loss)("node2")
    first, *_ = nodes.communicate()
    assert time.monotonic() - since < 90
    assert first.code == 3, first.text
    assert "node 1 (node2)" in first.text
    golden.check(first.text[first.text.index("error: ") :], f"host-lost-{loss}", replace=VARIES)
    nodes.hosts.wait_quiet()


def losses(workspace: Path) -> list[float]:
    """Of the newest run, iteration by iteration."""
    found = {}
    for file in workspace.glob("*/*/*/logs/*/rank-*/metrics.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        found.update({row["iteration"]: row["loss"] for row in rows if row["loss"] is not None})
    return [found[iteration] for iteration in sorted(found)]


SAME = ("run", EXAMPLE, *QUICK, "global_batch_size=4", "train_iters=3", "--nproc", "1")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of one rank."""
    folder = tmp_path_factory.mktemp("alone")
    argv = [sys.executable, "-m", "primus_core.cli.main", *map(str, SAME)]
    done = subprocess.run(argv, env=environment(folder), capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return losses(folder)


@pytest.mark.parametrize("count", [2, 4])
def test_training_is_the_same_on_several_hosts(count: int, make_nodes: MakeNodes, alone: list[float]) -> None:
    """The losses are those of one rank, also without a shared workspace, for two hosts."""
    nodes = make_nodes(count)
    if count == 2:
        nodes.hosts.hide("node2", nodes.workspace)
    nodes.start(*SAME, *APART, MASTER_PORT="29555")
    ended = nodes.end()
    assert [one.code for one in ended] == [0] * count, "".join(one.text for one in ended)
    assert all("ended       well" in one.out for one in ended[1:])
    assert len(alone) == 3
    assert losses(nodes.workspace) == pytest.approx(alone, rel=1e-5)
