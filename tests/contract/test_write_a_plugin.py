"""docs/write-a-plugin.md shows the code that is there, and commands that work."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.example import EXAMPLE, ROOT, install_example

DOCUMENT = (ROOT / "docs/write-a-plugin.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`(examples/plugin/[\w/.-]+\.\w+)`:$", re.MULTILINE)
COMMANDS = [line for language, text in BLOCK.findall(DOCUMENT) if not language for line in text.splitlines()]


def quotations() -> list[tuple[str, str]]:
    """Each block of code with the file that was named last before it."""
    found = []
    for block in BLOCK.finditer(DOCUMENT):
        if block[1]:
            names = NAMED.findall(DOCUMENT[: block.start()])
            found.append((names[-1], block[2]))
    return found


@pytest.mark.parametrize(("name", "text"), quotations())
def test_code_is_quoted_from_the_example(name: str, text: str) -> None:
    """A block of code stands, word for word, in the file that is named before it."""
    assert text in (ROOT / name).read_text()


def test_each_part_of_the_example_is_quoted() -> None:
    """No module of the example is left out of the walk."""
    quoted = {name for name, _ in quotations()}
    modules = {str(path.relative_to(ROOT)) for path in (EXAMPLE / "src").rglob("*.py") if path.name != "__init__.py"}
    assert modules <= quoted


def test_links_lead_somewhere() -> None:
    """What the page links to exists."""
    for link in re.findall(r"\]\((?!http)([^)]+)\)", DOCUMENT):
        assert (ROOT / "docs" / link).exists()


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith(("primus ", "pytest "))])
def test_commands_work(command: str, tmp_path: Path) -> None:
    """Each command, typed in a clone where the example is installed, succeeds."""
    module = {"primus": "primus_core.cli.main", "pytest": "pytest"}
    program, *words = shlex.split(command)
    words += ["-q", "-p", "no:cacheprovider", "--collect-only"] if program == "pytest" else []
    done = subprocess.run(
        [sys.executable, "-m", module[program], *words],
        cwd=ROOT,
        env={**install_example(tmp_path / "site"), "PRIMUS_WORKSPACE": str(tmp_path / "workspace")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nice" in done.stdout or "TestNice" in done.stdout


def test_installing_is_what_the_cluster_test_does() -> None:
    """The other commands are pip's, for folders and extras that exist."""
    others = [line for line in COMMANDS if not line.startswith(("primus ", "pytest "))]
    assert others == ["pip install ./examples/plugin", 'pip install "./examples/plugin[test]"']
    assert "test = " in (EXAMPLE / "pyproject.toml").read_text()
