"""`primus compare` as a process: the files that it writes, and what it does without its extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

from tests.core.comparing import Runs, rows
from tests.core.test_render import Reader, refers_outside
from tests.e2e.support import Primus, environment

FILES = {"compare.html", "compare.md", "grad-norm.png", "loss-difference.png", "loss.png", "throughput.png"}

SECRET = 'h&sh|<i>"t'
"""HTML and Markdown write it in another way."""


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two finished runs of two experiments, of which one has a secret where it should not be."""
    runs = Runs(folder=tmp_path)
    before = runs.make("a", rows([5.0, 4.0, 3.0]), overrides=["exp_name=one"])
    return before, runs.make("b", rows([5.0, 4.2, 3.1]), overrides=["exp_name=two", f"lr='x {SECRET} y'"])


def tree(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_report_is_written_into_its_folder_only(primus: Primus, pair: tuple[Path, Path], tmp_path: Path) -> None:
    """Charts as PNG, one page of HTML and one of Markdown that shows them; nothing is written beside, not even by the
    library that draws, and no secret; a second comparison replaces the first, byte by byte the same."""
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    for folder in (home, scratch):
        folder.mkdir()
    before, output = tree(tmp_path), tmp_path / "new/report"
    words = ("compare", *pair, "--output", output)
    env = {"HOME": str(home), "TMPDIR": str(scratch), "XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": "", "HUB_TOKEN": SECRET}
    done = primus(*words, **env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Comparison of two runs")
    assert str(output) in done.stderr
    written = tree(output)
    assert {path.name for path in written} == FILES
    assert tree(tmp_path) == before | written
    assert list(scratch.iterdir()) == []
    html, markdown = (output / "compare.html").read_text(), (output / "compare.md").read_text()
    assert refers_outside(html) == []
    assert sum(tag == "svg" for tag, _ in Reader(html).elements) == 4
    for text in (html, markdown.replace("\\", "")):
        assert "x *** y" in text
        assert "sh|" not in text
    for name in FILES - {"compare.html", "compare.md"}:
        assert imread(output / name).shape == (600, 1200, 4)
        assert f"]({name})" in markdown
    assert primus(*words, **env).returncode == 0
    assert tree(output) == written


def test_a_folder_with_other_content_is_not_touched(primus: Primus, pair: tuple[Path, Path], tmp_path: Path) -> None:
    """Neither one that holds another file, nor one with a chart that no comparison wrote, nor a file."""
    for name, told in (("notes.txt", "notes.txt"), ("loss.png", "loss.png")):
        (tmp_path / name.partition(".")[0]).mkdir()
        (tmp_path / name.partition(".")[0] / name).write_text("mine")
        done = primus("compare", *pair, "--output", tmp_path / name.partition(".")[0])
        assert done.returncode == 2
        assert told in done.stderr
        assert (tmp_path / name.partition(".")[0] / name).read_text() == "mine"
    done = primus("compare", *pair, "--output", tmp_path / "loss/loss.png")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_without_matplotlib_only_charts_are_missing(primus: Primus, pair: tuple[Path, Path], tmp_path: Path) -> None:
    """The text needs no library; charts name the extra that has it, and nothing is written."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/matplotlib.py").write_text("raise ModuleNotFoundError('No module named matplotlib')\n")
    env = {"PYTHONPATH": str(tmp_path / "site")}
    assert primus("compare", *pair, **env).returncode == 0
    done = primus("compare", *pair, "--output", tmp_path / "report", **env)
    assert done.returncode == 1
    assert "pip install 'primus-core[report]'" in done.stderr
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("words", [["--help"], ["compare"]])
def test_only_charts_load_what_draws(words: list[str], pair: tuple[Path, Path], workspace: Path) -> None:
    """Neither the start of the command line nor the text of a comparison loads a library of charts or tensors, and
    only a comparison loads what makes reports."""
    code = (
        "import sys\nfrom primus_core.cli.main import main\nmain(sys.argv[1:])\n"
        "heavy = ('matplotlib', 'numpy', 'PIL', 'torch')\n"
        "print('LOADED', [name for name in sys.modules if name.split('.')[0] in heavy])\n"
        "print('RENDER', 'primus_core.render' in sys.modules)"
    )
    argv = [sys.executable, "-c", code, *words, *(map(str, pair) if words == ["compare"] else ())]
    done = subprocess.run(argv, env=environment(workspace), capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout
    assert ("RENDER True" in done.stdout) is (words == ["compare"])
