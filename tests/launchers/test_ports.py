"""A port where ranks shall meet, and that another program has: told in one screen, whoever finds out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden import check
from tests.launchers import runs

pytestmark = pytest.mark.slow

SERVER = (
    "import socket, time; s = socket.create_server(('', 0)); print(s.getsockname()[1], flush=True); time.sleep(600)"
)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which another process waits."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        yield int(server.stdout.readline())
        server.kill()


def test_the_launcher_finds_the_port_taken(taken: int, tmp_path: Path) -> None:
    """torchrun cannot start: the screen names the port, and no rank ever was."""
    run = runs.run(runs.plan_of(tmp_path, "watched_tasks:meets", ranks=2, options={"master_port": taken}))
    check(run.printed, "port-taken-launcher")
    assert (run.report.exit_code, run.report.ranks, run.left) == (3, (), ())


def test_a_rank_finds_the_port_taken(taken: int, tmp_path: Path) -> None:
    """Without torchrun rank 0 itself waits at MASTER_PORT: it is the one that is named, with the port."""
    plan = runs.plan_of(tmp_path, "watched_tasks:meets", launcher="single", env={"MASTER_PORT": str(taken)})
    run = runs.run(plan)
    check(run.printed, "port-taken-rank")
    assert (run.report.exit_code, run.report.first_failure, run.left) == (3, 0, ())
