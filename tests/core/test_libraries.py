"""Libraries of versions that a back end does not support are told before a run, and where its ranks run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from primus_core.discovery import is_within, runtime_ranges
from primus_core.hooks.libraries import unsupported

EXPERIMENT = """work_group: team
user_name: me
exp_name: versions
workspace: {workspace}
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: llama2_7B.yaml
    overrides: {{mock_data: true, train_iters: 1}}
"""


def installed(site: Path, library: str, version: str) -> Path:
    """A distribution of that name, in front of the real one."""
    info = site / f"{library.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {library}\nVersion: {version}\n")
    return site


def dry_run(tmp_path: Path, site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "exp.yaml").write_text(EXPERIMENT.format(workspace=tmp_path / "w"))
    argv = [sys.executable, "-m", "primus_core.cli.main", "run", "exp.yaml", "accelerator=cpu", "--dry-run", *words]
    env = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)


def test_the_ranges_are_those_that_pip_installs() -> None:
    """Of both back ends: the libraries of their extra ``runtime`` that must have some version."""
    assert runtime_ranges("primus-backend-megatron")["megatron-core"] == ">=0.19,<0.20"
    assert runtime_ranges("primus-backend-torchtitan")["torchtitan"] == ">=0.3,<0.4"
    assert "einops" not in runtime_ranges("primus-backend-megatron")
    assert runtime_ranges("no-such-distribution") == {}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.19.0", True),
        ("0.19.2+rocm7", True),
        ("0.19.0rc1", True),
        ("0.18.3", False),
        ("0.20.0", False),
        ("a branch", True),
    ],
)
def test_versions_within_a_range(version: str, expected: bool) -> None:
    """Labels and early builds of vendors' images count as their release; what is no version is not judged."""
    assert is_within(version, ">=0.19,<0.20") is expected


def test_a_library_out_of_its_range_is_told_before_the_run(tmp_path: Path) -> None:
    """With the range and the remedy; under ``--preflight strict`` it ends the command."""
    site = installed(tmp_path / "site", "megatron-core", "0.18.0")
    done = dry_run(tmp_path, site)
    assert done.returncode == 0, done.stderr
    assert "warning: megatron-core 0.18.0 is outside of the supported range >=0.19,<0.20" in done.stderr
    assert 'pip install "megatron-core>=0.19,<0.20"' in done.stderr
    strict = dry_run(tmp_path, site, "--preflight", "strict")
    assert (strict.returncode, "error: megatron-core 0.18.0 is outside" in strict.stderr) == (1, True)


def test_torch_counts_too_where_the_ranks_have_it(tmp_path: Path) -> None:
    """In a container they have the image's, of which this host's says nothing; supported versions are no news."""
    site = installed(tmp_path / "site", "torch", "2.4.1")
    assert "warning: torch 2.4.1 is outside of the supported range >=2.13" in dry_run(tmp_path, site).stderr
    inside = dry_run(tmp_path, site, "--launcher", "container", "container.image=mine")
    assert "torch 2.4.1" not in inside.stderr
    assert "outside of the supported range" not in dry_run(tmp_path, tmp_path / "none").stderr


def test_what_is_not_installed_is_no_wrong_version(site: Path) -> None:
    """Who plans on a login node has no libraries; one whose version is known is judged by that."""
    installed(site, "some-library", "1.0")
    info = site / "some_backend-1.0.dist-info"
    info.mkdir()
    needs = ("some-library<2,>=1.5; extra == 'runtime'", "absent>=3; extra == 'runtime'", "attrs>=99")
    lines = "".join(f"Requires-Dist: {need}\n" for need in needs)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: some-backend\nVersion: 1.0\n{lines}")
    told = [finding.summary for finding in unsupported("some-backend", {}, here=True)]
    assert told == ["some-library 1.0 is outside of the supported range >=1.5,<2"]
    assert list(unsupported("some-backend", {}, here=False)) == []
    assert list(unsupported("some-backend", {"some-library": "1.6"}, here=True)) == []
