"""A preflight that is planned first, and carried out by `primus start`, as in the job of a scheduler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from primus_core.codec import from_json
from primus_core.plan import RunPlan
from tests.e2e.support import environment
from tests.preflight.sick import install, preflight


@pytest.mark.parametrize(("how", "code"), [("well", 0), ("finds", 3), ("tells nothing", 1)])
def test_who_carries_out_a_plan_judges_it(tmp_path: Path, how: str, code: int) -> None:
    """From any folder: verdict, reports, lists of nodes and exit code are those that the command would have had."""
    site, folder = install(tmp_path / "site"), tmp_path / "made"
    folder.mkdir()
    (folder / "limits.yaml").write_text("clock_failure: 60\n")
    words = ("--host", f"--limits={os.path.relpath(folder / 'limits.yaml')}", "--output", str(folder / "plan.json"))
    planned = preflight(tmp_path / "out", *words, path=[site])
    assert planned.code == 0, planned.text
    plan = from_json(RunPlan, (folder / "plan.json").read_text())
    assert plan.task.arguments["judge"] == ["--limits", str(folder / "limits.yaml")]
    path = shutil.copy(folder / "plan.json", plan.run_dir)
    argv = [sys.executable, "-m", "primus_core.cli.main", "start", path]
    env = environment(tmp_path / "out", PYTHONPATH=str(site), SICK=how)
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    results = Path(plan.run_dir) / "preflight"
    assert {"report.json", "report.md", "report.html", "failing_nodes.txt"} <= {path.name for path in results.iterdir()}
    assert bool((results / "failing_nodes.txt").read_text()) is (code != 0)
