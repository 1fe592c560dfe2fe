"""Plugins that break the contract: a run that names one ends in one screen, exit 1, and with nothing written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.support import Primus
from tests.e2e.test_bad_input import check_screen

EXPERIMENT = """\
work_group: team
user_name: me
exp_name: exp
workspace: ./out
modules:
  fit: {framework: toy, config: empty.yaml, model: empty.yaml, overrides: {mock_data: true}}
"""

HEAD = """\
from primus_core.contract import host
from primus_core.outcome import Finding
from primus_core.plan import Layout, Mapped, PatchSpec, Process, Submission, Translation
CONTRACT = 1
"""

TRANSLATE = """\
@host
def translate_config(module):
    row = Mapped(path="mock_data", native="mock_data", value=True)
    return Translation(native={"mock_data": True}, entry="x:y", layout=Layout(), mapping=(row,))
"""
LAUNCH = "@host\ndef launch(job): return Submission(processes=(Process(argv=(job.python, *job.argv)),))\n"
CHECK = "@host\ndef preflight_check(plan): return []\n"
LIBRARY = "LIBRARY_VERSIONS = ('1.0',)\n"

HEALTHY = {
    "toy-backend": ("primus.backends", "toy", HEAD + LIBRARY + TRANSLATE),
    "toy-launcher": ("primus.launchers", "start", HEAD + LAUNCH),
    "toy-check": ("primus.preflight", "look", HEAD + CHECK),
}
"""By distribution: group, name and source of three plugins that a run of `EXPERIMENT` uses."""


def instead(distribution: str, old: str, new: str) -> dict[str, tuple[str, str, str]]:
    """A distribution whose source says something else in one place."""
    group, name, source = HEALTHY[distribution]
    assert old in source
    return {distribution: (group, name, source.replace(old, new))}


BAD = {
    "misspelt hook": (
        instead("toy-backend", "def translate_config", "def translate_confg"),
        ["back end 'toy' of toy-backend 1.0", "unknown hook 'translate_confg'", "'translate_config' is probably meant"],
    ),
    "misspelt hook of a launcher": (
        instead("toy-launcher", "def launch", "def lunch"),
        ["launcher 'start' of toy-launcher 1.0", "unknown hook 'lunch'", "'launch' is probably meant"],
    ),
    "misspelt hook of a check": (
        instead("toy-check", "def preflight_check", "def prefight_check"),
        ["preflight 'look' of toy-check 1.0", "unknown hook 'prefight_check'", "'preflight_check' is probably meant"],
    ),
    "wrong signature": (
        instead("toy-backend", "translate_config(module)", "translate_config(modul)"),
        ["'toy' of toy-backend 1.0", "wrong arguments", "modul", "pip install --upgrade toy-backend"],
    ),
    "argument that only the call shows": (
        instead("toy-launcher", "launch(job)", "launch(job, *, queue)"),
        ["'start' of toy-launcher 1.0", "failed in launch", "queue"],
    ),
    "wrong signature of a check": (
        instead("toy-check", "preflight_check(plan)", "preflight_check(plans)"),
        ["'look' of toy-check 1.0", "wrong arguments", "plans"],
    ),
    "older contract": (
        instead("toy-backend", "CONTRACT = 1", "CONTRACT = 0"),
        ["'toy' of toy-backend 1.0", "CONTRACT = 0", "has 1", "pip install --upgrade toy-backend"],
    ),
    "older contract of a launcher": (
        instead("toy-launcher", "CONTRACT = 1", "CONTRACT = 0"),
        ["'start' of toy-launcher 1.0", "CONTRACT = 0", "pip install --upgrade toy-launcher"],
    ),
    "older contract of a check": (
        instead("toy-check", "CONTRACT = 1", "CONTRACT = 0"),
        ["'look' of toy-check 1.0", "CONTRACT = 0"],
    ),
    "newer contract": (
        instead("toy-backend", "CONTRACT = 1", "CONTRACT = 2"),
        ["CONTRACT = 2", "pip install --upgrade primus-core"],
    ),
    "two owners of a framework": (
        {"other-toy": HEALTHY["toy-backend"]},
        ["other-toy 1.0 and toy-backend 1.0 both claim the back end 'toy'", "exp.yaml:6", "pip uninstall other-toy"],
    ),
    "two owners of a launcher": (
        {"other-toy": HEALTHY["toy-launcher"]},
        ["other-toy 1.0 and toy-launcher 1.0 both claim the launcher 'start'", "pip uninstall toy-launcher"],
    ),
    "two owners of a check": (
        {"other-toy": HEALTHY["toy-check"]},
        ["is also claimed by other-toy 1.0", "is also claimed by toy-check 1.0", "pip uninstall"],
    ),
    "exception at import": (
        instead("toy-backend", "CONTRACT = 1", "raise RuntimeError('no licence')"),
        ["'toy' of toy-backend 1.0", "toy_backend.py:4", "RuntimeError: no licence"],
    ),
    "exit at import of a launcher": (
        instead("toy-launcher", "CONTRACT = 1", "raise SystemExit(0)"),
        ["'start' of toy-launcher 1.0", "toy_launcher.py:4", "SystemExit: 0"],
    ),
    "missing library of a check": (
        instead("toy-check", "CONTRACT = 1", "import no_such_library"),
        ["'look' of toy-check 1.0", "No module named 'no_such_library'"],
    ),
    "no hook at all": (
        instead("toy-backend", "@host\n", ""),
        ["'toy' of toy-backend 1.0", "implements no hook"],
    ),
    "two patches on one target": (
        instead(
            "toy-backend",
            "mapping=(row,))",
            "mapping=(row,), patches=[PatchSpec(id=name, target='os:nice', replacement='x:y', reason='r')"
            " for name in ('first', 'second')])",
        ),
        ["patches first and second replace the same target", "os:nice", "fault of the back end's patch plan"],
    ),
    "a patch after one that is not planned": (
        instead(
            "toy-backend",
            "mapping=(row,))",
            "mapping=(row,), patches=[PatchSpec(id='first', target='os:nice', replacement='x:y', reason='r',"
            " after=('other',))])",
        ),
        ["patch first comes after other, which is not planned"],
    ),
    "wrong answer": (
        instead("toy-launcher", "return Submission(", "return dict("),
        ["'start' of toy-launcher 1.0", "returned a dict from launch", "Submission"],
    ),
    "wrong finding": (
        instead("toy-check", "return []", "return [Finding(check='c', severity='fatal', summary='s')]"),
        ["'look' of toy-check 1.0", "error, warning, info"],
    ),
}
"""What is installed beside or instead of the healthy ones, and what the screen says."""


def install(folder: Path, plugins: Mapping[str, tuple[str, str, str]]) -> None:
    for distribution, (group, name, source) in plugins.items():
        module = distribution.replace("-", "_")
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}\n")
        (folder / f"{module}.py").write_text(source)


@pytest.fixture
def exp(tmp_path: Path) -> Path:
    (tmp_path / "exp.yaml").write_text(EXPERIMENT)
    (tmp_path / "empty.yaml").write_text("{}\n")
    return tmp_path / "exp.yaml"


@pytest.mark.parametrize("case", BAD)
def test_a_plugin_that_breaks_the_contract(case: str, primus: Primus, exp: Path, tmp_path: Path) -> None:
    """The screen names the plugin with its distribution, what is wrong and what to do; exit 1; nothing is written."""
    plugins, fragments = BAD[case]
    install(tmp_path / "site", {**HEALTHY, **plugins})
    done = primus("run", "exp.yaml", "--launcher", "start", PYTHONPATH=str(tmp_path / "site"))
    assert done.returncode == 1, done.stderr
    check_screen(done.stderr, fragments)
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


def test_healthy_plugins_run(primus: Primus, exp: Path, tmp_path: Path) -> None:
    """The plugins that the bad ones are made from are accepted, and the launcher's command is shown."""
    install(tmp_path / "site", HEALTHY)
    done = primus("run", "exp.yaml", "--launcher", "start", "--dry-run", PYTHONPATH=str(tmp_path / "site"))
    assert done.returncode == 0, done.stderr
    assert "primus_core.rank" in done.stdout


@pytest.mark.parametrize("distribution", HEALTHY)
def test_a_bad_plugin_that_is_not_named_hurts_nobody(
    distribution: str, primus: Primus, exp: Path, tmp_path: Path
) -> None:
    """Broken plugins under names that the run does not ask for are not even imported."""
    group, _, source = HEALTHY[distribution]
    bad = "raise SystemExit(9)\n" + source
    install(tmp_path / "site", {**HEALTHY, "bad-one": (group, "unasked", bad)})
    words = ["--skip-preflight"] if group == "primus.preflight" else []
    done = primus("run", "exp.yaml", "--launcher", "start", "--dry-run", *words, PYTHONPATH=str(tmp_path / "site"))
    assert done.returncode == 0, done.stderr
