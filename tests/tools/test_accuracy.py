"""`python -m tools.accuracy` judges each row by what is allowed, and writes a page of all groups or none."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tools.accuracy.__main__ import main
from tools.accuracy.groups import GROUPS, Group, Limits
from tools.accuracy.rows import row_of

STEPS = Limits(1, 2)
Run = Callable[..., int]


def group(module: str, exceptions: Mapping[str, Limits | None] = MappingProxyType({})) -> Group:
    """Of a program with this name."""
    named = f"Group {module}"
    return Group(title=named, what="A test.", module=module, unit="bytes", allowed=STEPS, exceptions=exceptions)


def row(projected: float | None, measured: float | None, **more: object) -> dict[str, object]:
    """As a program prints it."""
    return {"model": "m", "layout": "l", "projected": projected, "measured": measured, **more}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Write a program for each group, and run the tool with some arguments; the page is `page.md`."""

    def start(programs: dict[Group, str | list[dict[str, object]]], *arguments: str) -> int:
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)  # of a program written in the same second
        for each, program in programs.items():
            text = program if isinstance(program, str) else "\n".join(f"print({json.dumps(one)!r})" for one in program)
            (tmp_path / f"{each.module}.py").write_text(text)
        return main(["--output", str(tmp_path / "page.md"), *arguments], list(programs), tmp_path)

    return start


@pytest.mark.parametrize(
    ("projected", "code"), [(1000, 0), (990, 0), (985, 1), (1020, 0), (1021, 1), (980, 1), (None, 1)]
)
def test_too_low_is_worse_than_too_high(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], projected: float | None, code: int
) -> None:
    """The tool judges by itself: programs that print such rows end with 0."""
    assert run({group("steps"): [row(projected, 1000)]}) == code
    assert f"1 rows, {code} beyond -1 … +2 %" in capsys.readouterr().out
    page = (tmp_path / "page.md").read_text()
    assert "Allowed: -1 … +2 %." in page
    assert ("| off |" in page.split("## Group")[1]) == bool(code)


def test_a_note_excuses_no_measured_figure(run: Run, tmp_path: Path) -> None:
    """But one that could not be measured."""
    assert run({group("steps"): [row(1500, 1000, note="explained away")]}) == 1
    assert run({group("steps"): [row(1500, None, note="it cannot run here")]}) == 0
    assert "it cannot run here" in (tmp_path / "page.md").read_text()
    assert run({group("steps"): [row(1500, None)]}) == 1
    assert run({group("steps"): [row(1000, 1000, differences=["weights 1, and it is 2"], note="why")]}) == 1


def test_named_models_have_limits_of_their_own(run: Run, tmp_path: Path) -> None:
    """Which are stated in their rows, and which they must keep."""
    named = group("steps", exceptions={"m": Limits(0, 30), "unknown": None})
    unknown = {**row(None, 1000, note="not described"), "model": "unknown"}
    assert run({named: [row(1250, 1000, note="not gated"), unknown]}) == 0
    assert "| +25.000 % | -0 … +30 % | not gated |" in (tmp_path / "page.md").read_text()
    assert run({named: [row(1350, 1000, note="not gated")]}) == 1


@pytest.mark.parametrize("arguments", [["NoSuchWord", "--rows", "kept"], ["steps"]])
def test_a_word_is_refused_before_the_page_is_touched(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    """One that no title has; and any without the rows of the other groups."""
    (tmp_path / "page.md").write_text("as it was")
    with pytest.raises(SystemExit) as ended:
        run({group("steps"): [row(1, 1)]}, *arguments)
    assert ended.value.code == 2
    assert (tmp_path / "page.md").read_text() == "as it was"


def test_a_part_is_measured_again_beside_what_is_kept(run: Run, tmp_path: Path) -> None:
    """The page has every group, and says which have no rows yet."""
    first, second, third = group("first"), group("second"), group("third")
    kept, page = ("--rows", str(tmp_path / "kept")), tmp_path / "page.md"
    assert run({first: [row(1000, 1000)], second: [row(1003, 1000)]}, *kept) == 0
    assert run({first: [row(1999, 1000)], second: [row(1004, 1000)]}, *kept, "second") == 0
    assert "+0.400 %" in page.read_text()
    assert "| 1,000 | 1,000 | +0.000 %" in page.read_text()
    assert run({first: "", second: "", third: [row(1, 1)]}, *kept, "second") == 1
    assert "## Group third" in page.read_text()
    assert "not measured" in page.read_text().split("## Group third")[1]


def test_a_group_that_was_cut_says_so_and_is_measured_anew(run: Run, tmp_path: Path) -> None:
    """Its program was killed with the tool: there is no line of its end."""
    steps, other, kept = group("steps"), group("other"), tmp_path / "kept"
    programs: dict[Group, Any] = {steps: [row(1, 1), row(2, 2)], other: [row(3, 3)]}
    assert run(programs, "--rows", str(kept)) == 0
    (kept / "steps.jsonl").write_text(json.dumps(row(1, 1)) + '\n{"model": "m", "lay')
    assert run(programs, "--rows", str(kept), "other") == 1
    assert "ended before its last row" in (tmp_path / "page.md").read_text()
    assert run(programs, "--rows", str(kept)) == 0
    assert "ended before its last row" not in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("raise SystemExit('it broke')", "it ended with 1: it broke"),
        ("import no_such_module", "it ended with 1: ModuleNotFoundError"),
        ("", "its program found nothing to compare"),
    ],
)
def test_a_program_that_fails_is_told(run: Run, tmp_path: Path, program: str, told: str) -> None:
    """With its last words; so is one that has no figures at hand."""
    assert run({group("steps"): program}) == 1
    assert told in (tmp_path / "page.md").read_text()


def test_groups_of_different_commits_are_told(run: Run, tmp_path: Path) -> None:
    """Each group's commit is on the page."""
    programs: dict[Group, Any] = {group("first"): [row(1, 1)], group("second"): [row(2, 2)]}
    kept = ("--rows", str(tmp_path / "kept"))
    git = ("git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e")
    subprocess.run([*git, "init", "-q"], check=True)
    trees = []
    for words in ((), ("second",)):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
        assert run(programs, *kept, *words) == 0
        page = (tmp_path / "page.md").read_text()
        assert ("different commits" in page) == bool(words)
        described = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        trees.append(described.stdout.strip())
    assert all(tree in page for tree in trees)


def test_weights_are_exact_and_every_program_is_there() -> None:
    """Not one byte in a terabyte; the steps are held to what their tests hold them to."""
    weights = [each for each in GROUPS if "weights" in each.title]
    assert len(weights) == 2
    exact = row_of(row(10**12 + 1, 10**12))
    assert all(exact.is_off(each.allowed) for each in weights)
    assert {each.allowed for each in GROUPS if "step" in each.title and each.unit == "bytes"} == {STEPS}
    root = Path(__file__).parents[2]
    assert all((root / f"{each.module.replace('.', '/')}.py").is_file() for each in GROUPS)
