"""`EXP=... bash examples/run_*.sh`: the announcement's two commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.support import EXAMPLE, ROOT, environment

SCRIPTS = {"direct": ROOT / "examples/run_pretrain.sh", "container": ROOT / "examples/run_local_pretrain.sh"}


def run(script: Path, workspace: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", script, *words],
        cwd=ROOT,
        env=environment(workspace, PATH=path, **env),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_is_short_and_says_what_it_needs(script: Path, workspace: Path) -> None:
    """At most five lines; without EXP it ends with 2, and with a line that has the way to call it."""
    assert len(script.read_text().splitlines()) <= 5
    done = run(script, workspace)
    assert done.returncode == 2
    assert f"EXP=experiment.yaml bash {script}" in done.stderr


def test_on_this_host(workspace: Path) -> None:
    """The experiment's file and every further word reach the command."""
    done = run(SCRIPTS["direct"], workspace, "train_iters=3", "--dry-run", EXP=EXAMPLE.relative_to(ROOT).as_posix())
    assert done.returncode == 0, done.stderr
    assert "2 ranks (direct)" in done.stdout
    assert "examples/llama-tiny.yaml train_iters=3" in done.stdout


def test_in_a_container(workspace: Path) -> None:
    """The image is the one that DOCKER_IMAGE names."""
    asked = {"EXP": EXAMPLE.relative_to(ROOT).as_posix(), "DOCKER_IMAGE": "mine:1"}
    done = run(SCRIPTS["container"], workspace, "accelerator=cpu", "--dry-run", **asked)
    assert done.returncode == 0, done.stderr
    assert "-m primus_launchers.container --image=mine:1 " in done.stdout.splitlines()[-1]
