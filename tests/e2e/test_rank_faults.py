"""Ranks that fail, for real, among others that wait for them: the screen (kept as golden text), the exit code, the
report, and nothing left running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import golden
from tests.e2e.support import Primus, environment, no_process_left
from tests.forked.disks import small_disk

PROGRAM = Path(__file__).parent / "programs/fails.py"
CODES = {"ends_early": 0}
RANKS = {"raises": 3, "killed": 3}
"""Two where nothing is said."""


def words(fault: str, ranks: int) -> list[str]:
    return ["direct", "--nproc", str(ranks), "--script", str(PROGRAM), "--", fault]


def check(done: subprocess.CompletedProcess[str], name: str) -> None:
    screen = done.stdout[done.stdout.index("\nerror: ") :] if done.returncode else done.stdout
    golden.check(screen, name)


def report_of(workspace: Path) -> dict[str, Any]:
    (path,) = workspace.glob("scripts/me/fails/runs/2*/report.json")
    return dict(json.loads(path.read_text()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["raises", "killed", "leaves_hard", "crashes", "fills_disk", "lacks_module", "ends_early"]
)
def test_a_rank_that_fails(fault: str, primus: Primus, workspace: Path) -> None:
    """The last of two or three ranks is named with its cause, the others are counted, and none of them is left.

    A program that ends early in good order is a success.
    """
    ranks = RANKS.get(fault, 2)
    done = primus(*words(fault, ranks), timeout=400)
    assert done.returncode == CODES.get(fault, 3), done.stdout + done.stderr
    no_process_left(workspace)
    check(done, f"rank-{fault.replace('_', '-')}")
    report = report_of(workspace)
    assert report["first_failure"] == (ranks - 1 if done.returncode else None)
    assert {rank["phase"] for rank in report["ranks"]} == {"script" if done.returncode else "done"}
    assert all(rank["versions"]["torch"] for rank in report["ranks"])
    assert len(report["ranks"]) == ranks
    ended = sorted(rank["ended"] for rank in report["ranks"])
    assert ended[-1] - ended[0] < 15


@pytest.mark.slow
def test_a_folder_in_which_ranks_cannot_write(primus: Primus, workspace: Path) -> None:
    """The place and the system's reason are told, not the launcher's words on ranks that ended."""
    experiment = workspace / "scripts/me/fails"
    experiment.mkdir(parents=True)
    (experiment / "logs").touch()
    done = primus(*words("raises", ranks=2))
    assert done.returncode == 3, done.stdout + done.stderr
    no_process_left(workspace)
    check(done, "ranks-cannot-write")


@contextmanager
def memory_limit(count: int) -> Iterator[Path]:
    """A memory cgroup of its own; needs root. Version 1 or 2, whatever this machine has."""
    root = next(path for path in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")) if path.is_dir())
    folder = root / f"primus-test-{os.getpid()}"
    folder.mkdir()
    try:
        limit = folder / ("memory.limit_in_bytes" if (folder / "memory.limit_in_bytes").exists() else "memory.max")
        limit.write_text(str(count))
        yield folder
    finally:
        folder.rmdir()


@pytest.mark.cluster
def test_a_rank_for_which_memory_runs_out(workspace: Path, tmp_path: Path) -> None:
    """The kernel's kill is told apart from anybody's, with what the rank used and what all might use."""
    with memory_limit(1 << 30) as folder:
        join = f'echo $$ > {folder}/cgroup.procs; exec "$@"'
        done = subprocess.run(
            ["sh", "-c", join, "sh", sys.executable, "-m", "primus_core.cli.main", *words("fills_memory", ranks=2)],
            cwd=tmp_path,
            env=environment(workspace),
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        no_process_left(workspace)
    assert done.returncode == 3, done.stdout + done.stderr
    check(done, "rank-out-of-memory")
    report = report_of(workspace)
    assert (report["first_failure"], report["diagnosis"]["kind"]) == (1, "memory")
    assert report["ranks"][1]["memory_limit_bytes"] == 1 << 30


@pytest.mark.cluster
def test_a_disk_that_becomes_full_while_logging(workspace: Path, tmp_path: Path, primus: Primus) -> None:
    """Lines are lost, which is told once; the ranks go on, and their reports are written all the same."""
    with small_disk(tmp_path / "disk", "size=300m") as disk:
        words = ("--nproc", "2", "--script", PROGRAM.with_name("talks.py"), "--", disk / "ballast", tmp_path / "filled")
        done = primus("direct", *words, PRIMUS_WORKSPACE=str(disk / "workspace"))
        reports = list(disk.glob("workspace/scripts/me/talks/runs/2*/ranks/rank-*.json"))
        rooms = list(disk.glob("workspace/scripts/me/talks/runs/2*/ranks/*.room"))
    assert done.returncode == 0, done.stdout + done.stderr
    no_process_left(disk / "workspace")
    golden.check(done.stdout, "disk-full-while-logging")
    assert (len(reports), rooms) == (2, [])
