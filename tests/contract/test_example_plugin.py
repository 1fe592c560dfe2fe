"""The third-party plugin of `examples/plugin` works as it stands."""

from __future__ import annotations

import json
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
    """A back end, a launcher and a check take less than 150 lines of Python."""
    files = sorted((EXAMPLE / "src").rglob("*.py"))
    assert sum(len(path.read_text().splitlines()) for path in files) < 150
