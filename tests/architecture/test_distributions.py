"""The five distributions belong together."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = sorted(path.parent for path in ROOT.glob("primus-*/pyproject.toml"))
SOURCES = sorted(ROOT.glob("primus-*/src/**/*.py"))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_one_version() -> None:
    """All distributions have one version, and depend on the core of that minor version."""
    texts = [path.read_text() for path in ROOT.glob("primus-*/src/*/__init__.py")]
    versions = {re.search(r'__version__ = "(.*)"', text)[1] for text in texts}  # type: ignore[index]  # each must match
    assert len(texts) == len(DISTRIBUTIONS) == 5
    assert len(versions) == 1
    major, minor, _ = versions.pop().split(".")
    for folder in DISTRIBUTIONS:
        if folder.name != "primus-core":
            assert (
                f'"primus-core>={major}.{minor},<{major}.{int(minor) + 1}"' in (folder / "pyproject.toml").read_text()
            )


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_environment_is_read_where_a_process_begins(path: Path) -> None:
    """Commands, programs of launchers, the rank and the kit of plugins read the environment; others are given it."""
    launchers = r"primus_launchers/(plain|ssh/(together|remote)|container/(wrapper|inside)|slurm/(jobs|node|step))\.py"
    programs = (
        rf"primus_core/((cli|rank|testing)/|bundle/start\.py)|{launchers}|primus_preflight/(workers/|agent/alone\.py)"
    )
    if re.search(programs, str(path)):
        return
    tree = ast.parse(path.read_text())
    names = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
    }
    assert not names & {"environ", "getenv", "environb", "putenv"}


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_one_module_knows_each_library(path: Path) -> None:
    """PyYAML, cattrs, importlib.metadata, pluggy's manager, subprocess and structlog each have one home."""
    homes = {
        "yaml": "primus_core/yamlfile",
        "cattrs": "primus_core/codec",
        "importlib.metadata": "primus_core/discovery",
        "pluggy.PluginManager": "primus_core/hooks",
        "subprocess": r"primus_core/(submit|rank)|primus_launchers/(container/engine|slurm/jobs)\.py|"
        r"primus_preflight/agent/looked\.py",
        "structlog": "primus_core/log",
    }
    used = set(_imports(ast.parse(path.read_text())))
    for library, home in homes.items():
        if not re.search(home, str(path)):
            assert not any(name == library or name.startswith(library + ".") for name in used), f"{library} in {path}"


def _imports(tree: ast.Module) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names += [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.append(f"{node.value.id}.{node.attr}")
    return names


def test_registration_only_through_metadata() -> None:
    """No module registers itself in another one while it is imported."""
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            call = node.value if isinstance(node, ast.Expr) else None
            assert not isinstance(call, ast.Call), f"{relative(path)}:{node.lineno} calls something while imported"
