"""What the launchers ask core to start, and that torchrun understands it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from primus_core import discovery, hooks
from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.plan import Job, RunPlan, Submission, Target, Task
from primus_core.rundir import RunDir
from primus_core.submit import Console, submit


def job(ranks: int = 1, nodes: int = 1, **options: Value) -> Job:
    return Job(
        run_id="20260101-000000-abcdef",
        name="exp",
        task=Task(kind="train", entry="x:y", ranks_per_node=ranks),
        python=sys.executable,
        argv=("-m", "primus_core.rank", "/w/plan with space.json"),
        env={"NCCL_DEBUG": "WARN"},
        nodes=nodes,
        log_dir="/w/submission",
        options=options,
    )


def launch(name: str, of: Job) -> Submission:
    return hooks.load_host(discovery.scan(), backend=None, launcher=name, preflight=False).launch(of)


def test_single_starts_the_rank_itself() -> None:
    """One process, rank 0 of 1, with the job's variables."""
    (process,) = launch("single", job()).processes
    assert process.argv == (sys.executable, "-m", "primus_core.rank", "/w/plan with space.json")
    assert process.env == {
        "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "NCCL_DEBUG": "WARN"
    }  # fmt: skip


@pytest.mark.parametrize(("ranks", "nodes"), [(2, 1), (1, 2)])
def test_single_refuses_more_than_one_rank(ranks: int, nodes: int) -> None:
    """It names the package that can."""
    with pytest.raises(ConfigError, match="the job has 2") as caught:
        launch("single", job(ranks, nodes))
    assert "pip install primus-launchers" in caught.value.remedy


def test_direct_starts_torchrun_with_a_free_port() -> None:
    """One torchrun for all ranks of the host; torchrun itself takes a free port; its files stay in the run."""
    (process,) = launch("direct", job(ranks=4)).processes
    run = process.argv.index("-m", 3)
    assert process.argv[:3] == (sys.executable, "-m", "primus_launchers.torchrun")
    assert process.argv[run:] == ("-m", "primus_core.rank", "/w/plan with space.json")
    options = process.argv[3:run]
    assert {"--nproc-per-node=4", "--nnodes=1", "--max-restarts=0", "--log-dir=/w/submission/torchrun"} < set(options)
    assert "--rdzv-endpoint=localhost:0" in options
    assert process.env == {"NCCL_DEBUG": "WARN"}


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({"master_port": 29512}, {"--master-addr=localhost", "--master-port=29512"}),
        ({"master_addr": "10.0.0.7", "master_port": "29512"}, {"--master-addr=10.0.0.7", "--master-port=29512"}),
    ],
)
def test_direct_meets_where_it_is_told(options: dict[str, Value], flags: set[str]) -> None:
    """An address and port that were set replace the free port."""
    argv = launch("direct", job(ranks=2, **options)).processes[0].argv
    assert flags <= set(argv)
    assert not any("rdzv" in word for word in argv)


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "", None])
def test_direct_takes_a_free_port_on_this_host(address: Value) -> None:
    """The host's own address alone asks for nothing."""
    assert "--rdzv-endpoint=localhost:0" in launch("direct", job(master_addr=address)).processes[0].argv


def test_direct_starts_the_ranks_of_its_node() -> None:
    """Of several nodes each has its place, and all meet at node 0."""
    argv = launch("direct", job(2, 4, node_rank=0, master_addr="node-0", master_port=29500)).processes[0].argv
    assert {"--nnodes=4", "--node-rank=0", "--master-addr=node-0", "--master-port=29500"} <= set(argv)
    assert not any("rdzv" in word for word in argv)


def test_direct_refuses_what_it_cannot_start() -> None:
    """Several nodes without a meeting point, and an address without a port, are configuration errors."""
    with pytest.raises(ConfigError, match="the job has 3 nodes, and `node_rank` is not set"):
        launch("direct", job(nodes=3, master_addr="10.0.0.7"))
    with pytest.raises(ConfigError, match="master_port"):
        launch("direct", job(master_addr="10.0.0.7"))


RANK = """
import json, os, sys, torch.distributed as dist
dist.init_process_group("gloo")
ranks = [None] * dist.get_world_size()
dist.all_gather_object(ranks, (int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"]), os.environ["GREETING"]))
failing = dist.get_rank() == 1
os.makedirs(sys.argv[1], exist_ok=True)
with open(f"{sys.argv[1]}/rank-{dist.get_rank()}.json", "w") as file:
    json.dump({"run_id": "r", "rank": dist.get_rank(), "host": "h", "phase": "train", "exit_code": 2 * failing,
               "result": {"ranks": ranks}}, file)
dist.destroy_process_group()
sys.exit(2 * failing)
"""


def test_torchrun_starts_two_ranks_that_find_each_other(tmp_path: Path) -> None:
    """Real torchrun, real ranks on gloo: they meet on a free port, and the failing one's status comes back."""
    (tmp_path / "rank.py").write_text(RANK)
    rundir = RunDir(tmp_path / "e" / "runs" / "r")
    two = evolve(
        job(ranks=2),
        argv=(str(tmp_path / "rank.py"), str(rundir.ranks)),
        env={"GREETING": "a b"},
        log_dir=str(rundir.submission),
    )
    plan = RunPlan(
        run_id="r",
        run_dir=str(rundir.path),
        target=Target(accelerator="cpu", library_version="1", ranks_per_node=2),
        task=two.task,
        job=two,
        launcher="direct",
    )
    shown = io.StringIO()
    env = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    assert submit(launch("direct", two), plan, env=env, console=Console(shown, live=False)).exit_code == 2
    text = (rundir.ranks / "rank-0.json").read_text()
    assert '[[0, 0, "a b"], [1, 1, "a b"]]' in text
    assert shown.getvalue() == ""
    assert list((rundir.submission / "torchrun").iterdir())


def test_launching_imports_no_torch() -> None:
    """A login node without torch can plan a run with either launcher."""
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import primus_launchers.direct, primus_core.launchers.single, primus_core.submit, primus_core.hooks\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
