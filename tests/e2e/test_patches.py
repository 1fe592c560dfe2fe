"""A planned patch that cannot do its work stops the run before training, by name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import EXAMPLE, QUICK, Primus, environment

PATCH = "cpu-attention"

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def plan(primus: Primus, tmp_path: Path) -> dict[str, Any]:
    """The plan of a quick run with one rank."""
    path = tmp_path / "plan.json"
    done = primus("plan", EXAMPLE, *QUICK, "train_iters=2", "--nproc", "1", "--launcher", "single", "--output", path)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(path.read_text())
    return made


def run_rank(plan: dict[str, Any], tmp_path: Path, workspace: Path) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(plan))
    return subprocess.run(
        [sys.executable, "-m", "primus_core.rank", path],
        cwd=tmp_path,
        env=environment(workspace),
        capture_output=True,
        text=True,
        check=False,
    )


def the_patch(plan: dict[str, Any]) -> dict[str, Any]:
    (patch,) = [patch for patch in plan["translation"]["patches"] if patch["id"] == PATCH]
    found: dict[str, Any] = patch
    return found


FAULTS: dict[str, tuple[dict[str, Any], int, list[str]]] = {
    "missing": ({"replacement": "primus_backend_megatron.rank.patches.model:gone"}, 1, ["gone"]),
    "fails": ({"replacement": "builtins:int"}, 3, ["builtins:int", "TypeError"]),
    "target gone": ({"target": "megatron.core.models.backends:LocalSpecProvider.gone"}, 3, ["LocalSpecProvider.gone"]),
    "target changed": ({"fingerprint": ["0" * 64]}, 3, ["--allow-patch-drift " + PATCH]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_patch_that_cannot_work(fault: str, plan: dict[str, Any], tmp_path: Path, workspace: Path) -> None:
    """The run ends before training, with the patch's id, what is wrong with it and the right exit code."""
    change, code, fragments = FAULTS[fault]
    the_patch(plan).update(change)
    done = run_rank(plan, tmp_path, workspace)
    assert done.returncode == code, done.stdout + done.stderr
    told = done.stdout + done.stderr
    assert "Traceback" not in told
    for fragment in (PATCH, *fragments):
        assert fragment in told
    assert "iteration" not in done.stdout
    assert not list(workspace.rglob("checkpoints"))


def test_patch_left_out_of_the_library_version(plan: dict[str, Any], tmp_path: Path, workspace: Path) -> None:
    """A patch that was made for another version of the library is not applied to this one."""
    the_patch(plan)["requires"] = "megatron-core<0.1"
    done = run_rank(plan, tmp_path, workspace)
    assert done.returncode == 1
    assert PATCH in done.stdout + done.stderr


def test_allowed_drift_is_recorded(plan: dict[str, Any], tmp_path: Path, workspace: Path) -> None:
    """A changed target that the user accepts is patched, and the rank's report says so."""
    the_patch(plan)["fingerprint"] = ["0" * 64]
    plan["allowed_drift"] = [PATCH]
    done = run_rank(plan, tmp_path, workspace)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "iteration 2/2" in done.stdout
    report = json.loads(next(workspace.rglob("ranks/rank-0.json")).read_text())
    states = {result["id"]: result["state"] for result in report["patches"]["results"]}
    assert states[PATCH] == "drift-allowed"
    assert set(states.values()) == {"applied", "drift-allowed"}
