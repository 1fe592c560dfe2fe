"""What is patched can be asked for before a run, and a patch that cannot do its work stops one before training."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from primus_core.report.merge import merge
from primus_core.rundir import RunDir
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
    "target of another patch": (
        {"target": "megatron.training.training:initialize_megatron"},
        1,
        ["replace the same target", "cpu-initialize"],
    ),
    "waits for itself": ({"after": [PATCH]}, 1, ["wait for one another"]),
    "comes after an unknown one": ({"after": ["no-such-patch"]}, 1, ["no-such-patch, which is not planned"]),
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
    merged = merge(RunDir(Path(plan["run_dir"])), world_size=1)
    assert {result.id: result.state for result in merged.ranks[0].patches.results} == states


def test_patches_are_listed_with_their_reasons(primus: Primus, workspace: Path) -> None:
    """`primus patches` says what would be replaced, why, in which versions and when; it starts and writes nothing."""
    done = primus("patches", EXAMPLE, *QUICK)
    assert done.returncode == 0, done.stderr
    blocks = [block.splitlines() for block in done.stdout.split("\n\n")]
    assert blocks[0] == [f"{len(blocks) - 1} patches for megatron 0.19.2 on cpu"]
    (attention,) = [block for block in blocks if block[0] == PATCH]
    names, values = zip(*(line.split(maxsplit=1) for line in attention[1:]), strict=True)
    assert names == ("target", "reason", "requires", "when")
    assert values[0] == "megatron.core.models.backends:LocalSpecProvider.core_attention"
    assert values[2:] == ("megatron-core>=0.19.2,<0.20", "cpu")
    assert not workspace.exists()


def test_listed_patches_follow_the_experiment(primus: Primus) -> None:
    """A feature's patches are listed where the experiment uses it, with the parameter that asked for them."""
    done = primus("patches", "--format", "json", EXAMPLE, *QUICK, "num_experts=4", "accelerator=cpu")
    assert done.returncode == 0, done.stderr
    conditions = {patch["id"]: patch["condition"] for patch in json.loads(done.stdout)}
    assert conditions["cpu-all-to-all"] == "num_experts is set"
    assert "cpu-send" not in conditions


def test_patches_of_a_wrong_experiment_are_not_listed(primus: Primus) -> None:
    """Like every command that plans a run: one screen, exit 2."""
    done = primus("patches", EXAMPLE, "train_iters=fifty")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert not done.stdout
