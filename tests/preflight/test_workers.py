"""Workers measure real devices, on gloo here; each result is verified, and one that hangs costs itself alone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from primus_core import linux
from primus_core.codec import from_json
from primus_preflight.agent.files import Measured
from primus_preflight.model import Measurement
from primus_preflight.performance.tokens import TOKENS
from tests.testbed import faulty_torch

pytestmark = pytest.mark.slow

OPTIONS = '{"sizes": [65536, 1048576], "iterations": 3, "gemm_size": 256, "memory_bytes": 4194304, "seconds": 60}'


@contextlib.contextmanager
def meeting(folder: Path, tests: Sequence[str], options: str = OPTIONS, **env: str) -> Iterator[subprocess.Popen[str]]:
    """The agent of a single node."""
    argv = [sys.executable, "-m", "tests.testbed.meetings", "0", "1", "", "0", folder, options, *tests]
    with subprocess.Popen(argv, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True) as agent:
        yield agent
        agent.communicate(timeout=300)
        assert agent.returncode == 0


def measurements(folder: Path) -> tuple[Measurement, ...]:
    path = folder / "preflight" / "measurements.json"
    return from_json(Measured, path.read_text()).measurements if path.exists() else ()


def test_every_test_of_one_node_gives_right_values(tmp_path: Path) -> None:
    """Two workers on one host: each test of a device once, each test between devices in each size, none of several
    nodes."""
    with meeting(tmp_path, TOKENS):
        pass
    found = measurements(tmp_path)
    assert {(one.status, one.error) for one in found} == {("ok", "")}
    assert [(one.test, one.size_bytes, one.ranks) for one in found] == [
        ("gemm", 0, 1),
        ("hbm", 0, 1),
        ("train-step", 0, 1),
        ("intra-allreduce", 65536, 2),
        ("intra-allreduce", 1048576, 2),
        ("intra-alltoall", 65536, 2),
        ("intra-alltoall", 1048576, 2),
    ]
    assert all(len(one.values) == 3 and min(one.values) > 0 for one in found)


def test_sums_that_are_wrong_are_told(tmp_path: Path) -> None:
    """Where sums come out wrong the figure does not count; other tests are not touched."""
    plugin = faulty_torch.install(tmp_path / "plugin", "sums")
    with meeting(tmp_path, ["intra-allreduce", "intra-alltoall"], PYTHONPATH=str(plugin)):
        pass
    found = measurements(tmp_path)
    wrong = [one for one in found if one.test == "intra-allreduce"]
    assert {(one.status, one.values) for one in wrong} == {("wrong", ())}
    assert wrong[0].error.startswith("node 0: 1 of 16384 elements are wrong, ")
    assert {one.status for one in found if one.test == "intra-alltoall"} == {"ok"}


ENDLESS = '{"iterations": 2000, "gemm_size": 32, "seconds": 25}'


@pytest.mark.parametrize(
    ("number", "status", "error"),
    [
        (signal.SIGSTOP, "timeout", "no answer within 25 s; stands in "),
        (signal.SIGKILL, "error", "killed by SIGKILL"),
    ],
)
def test_a_worker_that_hangs_or_dies_costs_one_test(tmp_path: Path, number: int, status: str, error: str) -> None:
    """It is told what became of it, and a new worker does the next test."""
    with meeting(tmp_path, ["gemm", "hbm", "train-step"], ENDLESS) as agent:
        deadline = time.monotonic() + 120
        while not measurements(tmp_path):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (worker,) = (one.pid for one in linux.processes() if one.parent == agent.pid and one.group == one.pid)
        os.kill(worker, number)
    gemm, hbm, step = measurements(tmp_path)
    assert (gemm.status, hbm.status, step.status) == ("ok", status, "ok")
    assert hbm.error.startswith(error)
