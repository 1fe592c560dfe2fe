"""README says only what is true."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.e2e.support import ROOT, environment

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [line for _, block in BLOCKS for line in block.splitlines() if line.startswith("primus ")]


def primus(command: str, workspace: Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command, comments=True)[1:]
    argv = [sys.executable, "-m", "primus_core.cli.main", *words]
    return subprocess.run(argv, cwd=cwd, env=environment(workspace), capture_output=True, text=True, check=False)


def test_readme_is_short() -> None:
    """README stays under 120 lines and shows the commands of a first visit."""
    assert len(README.splitlines()) < 120
    assert len(COMMANDS) >= 5


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command: str, tmp_path: Path) -> None:
    """Each `primus` command of README, typed in a clone, succeeds."""
    done = primus(command, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_make_targets_exist() -> None:
    """Each `make` command of README is a target of the Makefile."""
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"^make (\S+)", README, re.MULTILINE)
    assert named
    assert set(named) <= set(targets)


def test_experiment_of_readme_resolves(tmp_path: Path) -> None:
    """README's experiment is accepted as it stands, for as many GPUs as it asks for."""
    (text,) = [block for language, block in BLOCKS if language == "yaml"]
    (tmp_path / "exp.yaml").write_text(text)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/a.jsonl").write_text('{"text": "a document"}\n')
    assert yaml.safe_load(text)["modules"]["pre_trainer"]["framework"] == "megatron"
    words = "primus run exp.yaml --dry-run --nproc 8 accelerator=cuda train_iters=10"
    done = primus(words, tmp_path / "workspace", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_files_that_documents_name_exist(document: str) -> None:
    """Every source file that a document names is where it says."""
    text = (ROOT / document).read_text()
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|json|yaml|toml|md))`", text))
    roots = [ROOT, *ROOT.glob("primus-*"), *ROOT.glob("primus-*/src")]
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []
