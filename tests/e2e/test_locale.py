"""Names that are not ASCII, in a shell that knows ASCII only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.support import EXAMPLE


def test_an_ascii_locale_plans_the_same(tmp_path: Path) -> None:
    """Paths, values and command-line words are UTF-8 under ``LC_ALL=C PYTHONUTF8=0`` too; ranks inherit the mode."""
    (tmp_path / "größe.yaml").write_bytes(EXAMPLE.read_bytes().replace(b":llama-tiny}", ":日本}".encode()))
    words = ["größe.yaml", "user_name=${WER}", "workspace=Käse", "--output", "plän.json"]
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "WER": "été"}
    ended = subprocess.run(
        [sys.executable, "-m", "primus_core.cli.main", "plan", *words],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    plan = json.loads((tmp_path / "plän.json").read_bytes())
    assert plan["run_dir"].startswith(f"{tmp_path}/Käse/examples/été/日本/runs/")
