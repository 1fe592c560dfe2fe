"""Running `primus` as a user does: a process, its exit code and what it prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.support import Primus, environment


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Where the runs of a test write; does not exist before one does."""
    return tmp_path / "workspace"


@pytest.fixture
def primus(tmp_path: Path, workspace: Path) -> Primus:
    """Runs one command line of `primus` in the test's folder."""

    def run(*words: str | Path, timeout: float = 400, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "primus_core.cli.main", *map(str, words)],
            cwd=tmp_path,
            env=environment(workspace, **env),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
