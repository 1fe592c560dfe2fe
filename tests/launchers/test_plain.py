"""One process on each node, without torchrun."""

from __future__ import annotations

import subprocess
import sys

import pytest
from attrs import evolve

from primus_core import hooks
from primus_core.discovery import scan
from primus_core.plan import Job, Task
from primus_launchers.plain import environment

ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "0"}


@pytest.mark.parametrize(
    ("options", "env", "expected"),
    [
        ((), {}, {**ALONE, "MASTER_ADDR": "127.0.0.1"}),
        (("--rdzv-endpoint=localhost:0", "--nnodes=1"), {}, {**ALONE, "MASTER_ADDR": "127.0.0.1"}),
        (
            ("--nnodes=3", "--node-rank=2", "--master-addr=a", "--master-port=7"),
            {"PET_NODE_RANK": "1"},
            {**ALONE, "RANK": "2", "GROUP_RANK": "2", "WORLD_SIZE": "3", "MASTER_ADDR": "a", "MASTER_PORT": "7"},
        ),
        (
            ("--nnodes=3",),
            {"PET_NODE_RANK": "1", "PET_MASTER_ADDR": "b", "PET_MASTER_PORT": "8"},
            {**ALONE, "RANK": "1", "GROUP_RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "b", "MASTER_PORT": "8"},
        ),
    ],
)
def test_the_process_knows_its_place(options: tuple[str, ...], env: dict[str, str], expected: dict[str, str]) -> None:
    """From torchrun's options, else from its variables."""
    found = environment(options, env)
    assert {name: value for name, value in found.items() if not name.startswith("PET_")} == expected


def test_a_plain_task_needs_no_torch() -> None:
    """What the launcher starts becomes the process itself, with its place in its environment, and imports no torch."""
    program = "import os, sys; print(os.environ['RANK'], 'torch' in sys.modules)"
    task = Task(kind="preflight", entry="x:y", runner="plain")
    job = Job(run_id="r", name="n", task=task, python=sys.executable, argv=("-c", program))
    (process,) = hooks.load_host(scan(), backend=None, launcher="direct", preflight=False).launch(job).processes
    done = subprocess.run(process.argv, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "0 False\n"


def test_nodes_of_a_plain_task_do_not_end_together() -> None:
    """Slurm is told so, and so is the program beside it; of a training all end."""
    task = Task(kind="preflight", entry="x:y", runner="plain")
    job = Job(run_id="r", name="n", task=task, python="/p", argv=("-m", "x"), nodes=2)
    slurm = hooks.load_host(scan(), backend=None, launcher="slurm", preflight=False)
    (apart,) = slurm.launch(job).processes
    (together,) = slurm.launch(evolve(job, task=evolve(task, runner="torchrun"))).processes
    assert {"--apart", "--kill-on-bad-exit=0", "primus_launchers.plain"} <= set(apart.argv)
    assert {"--kill-on-bad-exit=1", "primus_launchers.torchrun"} <= set(together.argv)
    assert "--apart" not in together.argv
