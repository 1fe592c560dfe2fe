"""The third-party plugin of `examples/plugin`, built and installed as its users do."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cluster.test_fresh_install import ROOT, run

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples/plugin"


def test_a_plugin_from_a_wheel_in_an_empty_environment(tmp_path: Path) -> None:
    """Two wheels in a fresh venv: the plugin is listed, trains with its own launcher, and passes its contracts."""
    wheels, venv = tmp_path / "wheels", tmp_path / "venv"
    for folder in (ROOT / "primus-core", EXAMPLE):
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", wheels, folder, cwd=tmp_path)
    run(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    install = (venv / "bin/pip", "install", "--quiet", "--no-compile", "--find-links", wheels)
    run(*install, "primus-line", cwd=tmp_path)
    listed = run(venv / "bin/primus", "plugins", cwd=tmp_path)
    for name in ("line", "nice", "cores"):
        assert re.search(rf"^{name} .*primus-line +0\.1\.0 +ok$", listed, re.MULTILINE), listed
    (tmp_path / "line.yaml").write_text((EXAMPLE / "line.yaml").read_text())
    run(venv / "bin/primus", "run", "line.yaml", "--launcher", "nice", "--nproc", "2", cwd=tmp_path)
    for rank in (0, 1):
        log = tmp_path / f"output/examples/me/line/logs/fit/rank-{rank}/metrics.jsonl"
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        assert [row["iteration"] for row in rows] == list(range(1, 51))
    run(*install, "primus-line[test]", cwd=tmp_path)
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, EXAMPLE)
    assert " passed" in run(venv / "bin/python", *words, cwd=tmp_path)
