"""`primus slurm sbatch -- preflight`: the job itself judges its nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster.jobs import LONG
from tests.e2e.support import environment
from tests.preflight.sick import install, run_folder
from tests.testbed.slurm import Slurm, primus

pytestmark = pytest.mark.cluster


def test_a_job_judges_its_nodes_at_its_end(slurm: Slurm, tmp_path: Path) -> None:
    """One of three nodes is sick: the job ends with 3, and has left its name, and the reports, when nobody asks."""
    env = environment(tmp_path / "out", PYTHONPATH=str(install(tmp_path / "site")), SICK="finds", SICK_NODES="1")
    done = slurm.run(primus("slurm", "sbatch", "-N3", "--", "preflight", "--host"), env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    job = re.search(r"^job +(\d+)$", done.stdout, re.MULTILINE)
    assert job, done.stdout
    ended = slurm.wait_state(job[1], "COMPLETED", "FAILED", seconds=LONG)
    folder = run_folder(tmp_path / "out")
    printed = (folder.parent / "submission" / f"slurm-{job[1]}.out").read_text()
    assert ended["ExitCode"] == "3:0", printed
    assert "a cold" in printed
    assert "node2" in (folder / "failing_nodes.txt").read_text().split()
    assert {"report.json", "report.md", "report.html", "report.junit.xml"} <= {path.name for path in folder.iterdir()}
    slurm.wait_idle()
