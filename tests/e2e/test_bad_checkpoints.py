"""Checkpoints that are not there, or not what the run needs: told before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import Primus
from tests.e2e.test_bad_input import add, check_screen, write


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """A folder that says that it holds the checkpoints of iterations 50 and 100."""
    folder = tmp_path / "checkpoints"
    for step in (50, 100):
        (folder / f"iter_{step:07d}").mkdir(parents=True)
        (folder / f"iter_{step:07d}/primus.json").write_text("{}")
    (folder / "latest_checkpointed_iteration.txt").write_text("100")
    return folder


CASES = {
    "mistyped folder": (
        "load: chekpoints",
        ["exp.yaml:14", "chekpoints", "does not exist", "Did you mean", "/checkpoints?"],
    ),
    "folder without a checkpoint": ("load: empty", ["exp.yaml:14", "no whole checkpoint in", "/empty"]),
    "step that does not exist": (
        "load: checkpoints\n      load_step: 60",
        ["exp.yaml:15", "no whole checkpoint of iteration 60", "whole checkpoints: 50, 100", "load_step: 60"],
    ),
    "one checkpoint instead of their folder": ("load: checkpoints/iter_0000050", ["exp.yaml:14", "load_step to 50"]),
    "step of nothing": ("load_step: 60", ["exp.yaml:14", "load_step is set and load is not"]),
    "damaged": ("load: checkpoints", ["exp.yaml:14", "iter_0000100 cannot be read"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_that_cannot_be_started_from(case: str, primus: Primus, checkpoints: Path, tmp_path: Path) -> None:
    """One screen with line, reason and remedy; exit 2; no process was started and nothing was written."""
    lines, fragments = CASES[case]
    (tmp_path / "empty").mkdir()
    write(tmp_path, *add(lines))
    done = primus("run", "exp.yaml", "--nproc", "2")
    assert done.returncode == 2, done.stderr
    check_screen(done.stderr, fragments)
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("framework", ["megatron", "torchtitan"])
def test_checkpoints_of_the_other_back_end(framework: str, primus: Primus, checkpoints: Path, tmp_path: Path) -> None:
    """They are told as such, with line, iterations and the way to take their weights."""
    if framework == "megatron":
        (tmp_path / "checkpoints").rename(tmp_path / "old")
        for step in (50, 100):
            (tmp_path / f"checkpoints/step-{step}").mkdir(parents=True)
    write(tmp_path, *add("load: checkpoints"))
    done = primus("run", "exp.yaml", "--nproc", "2", "--framework", framework)
    assert done.returncode == 2, done.stderr
    other = "Megatron" if framework == "torchtitan" else "TorchTitan"
    fragments = ["exp.yaml:14", f"checkpoints of {other}", "50, 100", "primus checkpoint export RUN --to hf", "load_hf"]
    check_screen(done.stderr, fragments)


def test_validation_looks_at_files_when_asked(primus: Primus, tmp_path: Path) -> None:
    """Data and checkpoints that are elsewhere stop no validation, and every one with --files."""
    write(tmp_path, *add("load: nowhere"))
    (tmp_path / "text.txt").unlink()
    assert primus("config", "validate", "--nproc", "1", "exp.yaml").returncode == 0
    done = primus("config", "validate", "--nproc", "1", "--files", "exp.yaml")
    assert done.returncode == 2
    told = done.stdout + done.stderr
    for fragment in ("exp.yaml:11", "text.txt does not exist", "exp.yaml:14", "no whole checkpoint in", "nowhere"):
        assert fragment in told
