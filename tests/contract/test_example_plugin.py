"""The third-party plugin of `examples/plugin` works as it stands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.example import EXAMPLE, install_example

PRIMUS = (sys.executable, "-m", "primus_core.cli.main")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")


def run(argv: tuple[str, ...], env: dict[str, str], cwd: Path = EXAMPLE) -> str:
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has installed the example."""
    return {**install_example(tmp_path / "site"), "PRIMUS_WORKSPACE": str(tmp_path / "workspace")}


def rows(workspace: Path, rank: int) -> list[dict[str, float]]:
    path = workspace / f"examples/me/line/logs/fit/rank-{rank}/metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_its_back_end_trains_with_its_launcher(env: dict[str, str], tmp_path: Path) -> None:
    """`primus run` with the plugin's own framework, launcher and check: two ranks fit the line that was asked for."""
    run((*PRIMUS, "run", "line.yaml", "--launcher", "nice", "--nproc", "2", "slope=3"), env)
    for rank in (0, 1):
        found = rows(tmp_path / "workspace", rank)
        assert [row["iteration"] for row in found] == list(range(1, 51))
        assert found[-1]["loss"] < 0.3 * found[0]["loss"]
    report = json.loads((tmp_path / "workspace/examples/me/line/runs/latest/report.json").read_text())
    fits = [rank["result"] for rank in report["ranks"]]
    assert len({fit["slope"] for fit in fits}) == 2
    for fit in fits:
        assert fit["slope"] == pytest.approx(3, abs=0.4)
        assert fit["intercept"] == pytest.approx(-1, abs=0.2)


def test_its_model_is_projected(env: dict[str, str]) -> None:
    """What a third party's back end tells of its model is all that `primus projection memory` needs."""
    words = ("projection", "memory", "--config", "line.yaml", "--gpus", "4", "micro_batch_size=1000")
    found = json.loads(run((*PRIMUS, *words, "--gpu", "mi300x", "--format", "json"), env))
    assert (found["framework"], found["ranks"], found["parameters"], found["fits"]) == ("line", 4, 2, True)
    (stage,) = found["stages"]
    assert (stage["weights"], stage["gradients"], stage["moments"]) == (2 * 8, 2 * 8, 0)
    assert stage["parts"]["line"] == 1000 * 8
    assert found["model_flops_per_token"] == 3 * 3
    text = run((*PRIMUS, *words), env)
    assert "4 ranks on 1 node (data 4); 1 micro batch of 1,000 tokens; 2 parameters" in text


def test_a_back_end_without_the_hook_has_no_projection(env: dict[str, str], tmp_path: Path) -> None:
    """It is refused by name, and its runs start as before, with no word of memory."""
    shutil.copytree(EXAMPLE / "src", tmp_path / "src")
    module = tmp_path / "src/primus_line/host.py"
    module.write_text(module.read_text().partition("@host\ndef model_shape")[0])
    silent = {**env, "PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), env["PYTHONPATH"]])}
    words = (*PRIMUS, "projection", "memory", "--config", "line.yaml")
    done = subprocess.run(words, cwd=EXAMPLE, env=silent, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the back end line has no projection" in done.stderr
    assert "memory" not in run((*PRIMUS, "run", "line.yaml", "--launcher", "nice", "--nproc", "1"), silent)


def test_a_run_of_it_has_a_line_of_the_projection(env: dict[str, str]) -> None:
    """Before it starts, and beside what was measured when it has ended."""
    told = run((*PRIMUS, "run", "line.yaml", "--launcher", "nice", "--nproc", "1"), env).splitlines()
    assert [line.split()[1:4] for line in told if line.startswith("model ")] == [["2", "parameters,", "2"]]
    memory = [line.split()[1:4] for line in told if line.startswith("memory ")]
    assert memory == [["176", "bytes", "projected"]] * 2


def test_its_check_is_asked(env: dict[str, str]) -> None:
    """More ranks than cores: the plugin's warning is shown before anything starts."""
    done = subprocess.run(
        (*PRIMUS, "run", "line.yaml", "--launcher", "nice", "--nproc", "9999", "--dry-run"),
        cwd=EXAMPLE, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr.startswith("warning: 9999 ranks share")


def test_it_keeps_the_contracts(env: dict[str, str], tmp_path: Path) -> None:
    """The example's own tests, which are the contracts of `primus_core.testing`, pass."""
    out = run((*PYTEST, str(EXAMPLE / "tests"), "--rootdir", str(tmp_path)), env, tmp_path)
    assert " passed" in out


def test_it_stays_small() -> None:
    """A back end with its projection, a launcher and a check take less than 160 lines of Python."""
    files = sorted((EXAMPLE / "src").rglob("*.py"))
    assert sum(len(path.read_text().splitlines()) for path in files) < 160
