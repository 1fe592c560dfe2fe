"""What a user installs from wheels, in an empty virtual environment, trains."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.support import QUICK

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()

pytestmark = pytest.mark.slow


def run(*argv: str | Path, cwd: Path, seconds: float = 900, **env: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env={**kept, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def install_lines() -> list[list[str]]:
    """The literal `pip install` lines of README's section on installing, in their order."""
    section = README.split("## Install", 1)[1].split("\n## ", 1)[0]
    lines = re.findall(r"^pip (install .*)$", section, re.MULTILINE)
    return [line.split() for line in lines]


def test_wheels_in_an_empty_environment(tmp_path: Path) -> None:
    """README's install lines, pointed at wheels built from this tree, give a `primus` that trains with one process."""
    wheels = tmp_path / "wheels"
    for package in ("primus-core", "primus-backend-megatron"):
        run(
            sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", wheels, ROOT / package, cwd=tmp_path
        )
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    lines = install_lines()
    assert len(lines) >= 2
    for line in lines:
        words = [word.strip("'\"") for word in line]
        # what is never imported need not be compiled
        run(venv / "bin/pip", *words, "--quiet", "--no-compile", "--find-links", wheels, cwd=tmp_path)
    listed = run(venv / "bin/primus", "plugins", cwd=tmp_path)
    assert re.search(r"^single +launcher +primus-core +\S+ +ok$", listed, re.MULTILINE)
    assert "primus-launchers" not in listed
    (tmp_path / "exp.yaml").write_text((ROOT / "examples/llama-tiny.yaml").read_text())
    refused = subprocess.run(
        [venv / "bin/primus", "run", "exp.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "pip install primus-launchers" in refused.stderr
    out = run(venv / "bin/primus", "run", "exp.yaml", "--nproc", "1", *QUICK, cwd=tmp_path, OMP_NUM_THREADS="1")
    assert "iteration 4/4" in out
