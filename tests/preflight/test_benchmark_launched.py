"""`primus benchmark` as a user starts it: torchrun, ranks, results on the screen and in a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.support import environment


@pytest.mark.slow
def test_collectives_under_torchrun(tmp_path: Path) -> None:
    """Two ranks measure a verified all-reduce; a second run adds its rows to the same file."""
    words = ["rccl", "--sizes=4K", "--iters=3", "--warmup=1", "--check", "--output-file=out.jsonl"]
    for number in (1, 2):
        ended = subprocess.run(
            [sys.executable, "-m", "primus_core.cli.main", "direct", "--nproc=2", "--", "benchmark", *words],
            cwd=tmp_path,
            env=environment(tmp_path / "workspace"),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert [row["status"] for row in rows] == ["ok"] * number
        assert "rccl on " in ended.stdout
        assert f"all_reduce  {rows[-1]['bytes']:>5}  bf16" in ended.stdout
    assert len({row["run_id"] for row in rows}) == 2
