"""Two runs side by side."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from primus_core.cli.main import main
from tests.core.comparing import Runs, pair, rows


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(folder=tmp_path)


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs one comparison in this process; returns what it prints."""

    def run(*words: str | Path) -> str:
        code = main(["compare", *map(str, words)])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return printed.out

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs one comparison that is wrong; returns its screen."""

    def run(*words: str | Path) -> str:
        assert main(["compare", *map(str, words)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert len(printed.err.splitlines()) <= 12
        return printed.err

    return run


def test_two_runs_side_by_side(runs: Runs, compare: Any) -> None:
    """The text tells what was asked, the runs, loss and gradient norm with the largest difference and its place,
    medians without the first iterations, memory, duration and end."""
    slow = rows([9.0] * 5, tokens_per_second=1, step_seconds=60)
    a = runs.make("a", [*slow, *rows([4.0, 3.0, 2.0, 2.0, 2.0], first=6)], overrides=["exp_name=one"])
    b = runs.make(
        "b",
        [*slow, *rows([4.0, 3.3, 2.0, 2.0, 1.9], first=6, grad_norm=3.0, tokens_per_second=1500, memory_bytes=3 << 29)],
        overrides=["exp_name=two", "lr=2"],
        codes=(0, 3),
        ranks=2,
    )
    text = compare(a, b)
    assert pair(text, "run") == ["a", "b"]
    assert pair(text, "lr") == ["1", "2"]
    assert "hidden_size" not in text
    assert pair(text, "back end") == ["megatron 1.2"] * 2
    assert pair(text, "ranks") == ["1 on 1 node (cpu)", "2 on 1 node (cpu)"]
    assert pair(text, "iterations") == ["1 to 10 of 100"] * 2
    assert pair(text, "end") == ["success", "exit code 3; rank 1 failed first"]
    assert pair(text, "wall time") == ["1 min 30 s"] * 2
    assert pair(text, "first in common", "Loss") == ["1", "9", "9", "0"]
    assert pair(text, "last in common", "Loss") == ["10", "2", "1.9", "-5.0e-02"]
    assert pair(text, "largest difference", "Loss") == ["7", "3", "3.3", "+1.0e-01"]
    assert pair(text, "largest difference", "Gradient") == ["6", "2", "3", "+5.0e-01"]
    assert "median of iterations 6 to 10" in text
    assert pair(text, "tokens/s, all ranks") == ["1,000", "1,500", "+50.0%"]
    assert pair(text, "s per step") == ["0.5", "0.5", "0"]
    assert pair(text, "MFU") == ["-", "-", "-"]
    assert pair(text, "largest peak memory of a rank") == ["1.0 GiB", "1.5 GiB", "+50.0%"]


def test_experiments_that_mean_the_same(runs: Runs, compare: Any) -> None:
    """Two runs of one experiment differ in nothing that was asked."""
    a, b = (runs.make(name, rows([2.0])) for name in "ab")
    assert "The two experiments mean the same." in compare(a, b)


def test_a_run_is_named_by_its_folder_its_experiment_or_its_plan(runs: Runs, compare: Any, tmp_path: Path) -> None:
    """An experiment means its newest run; a plan that was written elsewhere means the run that it was for; a run that
    was moved with its logs is read where it is."""
    first, newest = runs.make("a", rows([2.0])), runs.make("b", rows([2.0]))
    text = compare(newest.parent.parent, first / "plan.json")
    assert pair(text, "folder") == [str(newest), str(first)]
    (tmp_path / "plan.json").write_bytes((first / "plan.json").read_bytes())
    assert pair(compare(tmp_path / "plan.json", newest.parent / "latest"), "run") == ["a", "b"]
    moved = tmp_path / "moved"
    newest.parent.parent.rename(moved)
    assert pair(compare(moved, moved / "runs/a"), "folder") == [str(moved / "runs/b"), str(moved / "runs/a")]


def test_runs_of_one_experiment_are_kept_apart(runs: Runs, compare: Any) -> None:
    """Both append to the same file; each has its own rows only."""
    a, b = runs.make("a", rows([5.0, 4.0, 3.0])), runs.make("b", rows([5.0, 4.5]))
    text = compare(a, b)
    assert pair(text, "iterations") == ["1 to 3 of 100", "1 to 2 of 100"]
    assert pair(text, "last in common", "Loss") == ["2", "4", "4.5", "+1.2e-01"]
    assert pair(text, "last of A", "Loss") == ["3", "3", "-", "-"]


def test_the_later_row_of_an_iteration_counts(runs: Runs, compare: Any) -> None:
    """A run that its launcher restarted went through some iterations twice."""
    a = runs.make("a", [*rows([5.0, 4.0, 9.0]), *rows([3.0, 2.0], first=3)])
    b = runs.make("b", rows([5.0, 4.0, 3.0, 2.0]))
    text = compare(a, b)
    assert pair(text, "iterations") == ["1 to 4 of 100"] * 2
    assert pair(text, "largest difference", "Loss")[-1] == "0"


def test_a_resumed_run_has_the_iterations_that_it_continues(runs: Runs, compare: Any) -> None:
    """With `auto_continue_train` a run goes on from a checkpoint of the run before, through any number of restarts:
    what that one did after the checkpoint does not count, nor does a run that nothing was continued from."""
    runs.make("a", rows([5.0, 4.0, 9.0]))
    runs.make("lost", rows([8.0, 8.0, 8.0, 8.0, 8.0, 8.0]))
    runs.make("b", rows([5.0, 4.0, 3.0, 7.0]))
    runs.make("c", rows([2.0, 1.0], first=4), auto_continue_train=True)
    resumed = runs.make("d", rows([0.5], first=6), auto_continue_train=True)
    whole = runs.make("w", rows([5.0, 4.0, 3.0, 2.0, 1.0, 0.5]), overrides=["exp_name=other"])
    comparison = json.loads(compare(resumed, whole, "--format", "json"))
    assert comparison["common"] == {"first": 1, "last": 6, "count": 6}
    assert comparison["loss"]["largest"]["relative"] == 0
    assert comparison["a"]["continues"] == ["c", "b"]
    assert "A went on from run c, b" in compare(resumed, whole)
    runs.make("p", [*rows([5.0] * 6), *rows([5.0, 4.0])], overrides=["exp_name=third"])
    behind = runs.make("q", rows([3.0], first=3), auto_continue_train=True, overrides=["exp_name=third"])
    assert pair(compare(behind, behind), "iterations")[0] == "1 to 3 of 100"
    alone = runs.make("e", rows([0.5], first=7))
    assert pair(compare(alone, alone), "iterations")[0] == "7 to 7 of 100"


def test_a_live_run_is_compared_as_far_as_it_is(runs: Runs, compare: Any) -> None:
    """A line that is still being written is left out without a word; the run has no end yet."""
    a = runs.make("a", rows([5.0, 4.0]))
    b = runs.make("b", rows([5.0]), codes=(), overrides=["exp_name=live"])
    file = b.parent.parent / "logs/pre_trainer/rank-0/metrics.jsonl"
    file.write_text(file.read_text() + '{"run_id": "b", "iteration": 2, "los')
    text = compare(a, b)
    assert pair(text, "iterations") == ["1 to 2 of 100", "1 to 1 of 100"]
    assert pair(text, "end") == ["success", "no report: it goes on, or was ended without one"]
    assert "damaged" not in text


def test_damaged_lines_are_told(runs: Runs, compare: Any) -> None:
    """A line in the middle that is no row, of a run that was killed while it wrote, is left out and told."""
    a = runs.make("a", rows([5.0, 4.0]))
    file = a.parent.parent / "logs/pre_trainer/rank-0/metrics.jsonl"
    lines = file.read_text().splitlines()
    odd = [lines[0][:30], "3", '{"run_id": "a", "iteration": "7"}', "[" * 99999, lines[0].replace("5.0", "9" * 400)]
    file.write_text("\n".join([lines[0], *odd, lines[1], ""]))
    text = compare(a, a)
    assert pair(text, "iterations")[0] == "1 to 2 of 100"
    assert f"A: damaged lines of {file} are left out: 2, 3, 4, 5, 6." in text


def test_the_loss_is_read_where_it_is(runs: Runs, compare: Any) -> None:
    """Of a pipeline only the last stage has the loss; memory is that of the rank that needs most."""
    a = runs.make("a", rows([None, None], memory_bytes=8 << 30), codes=(0, 0), pipeline=2, ranks=2)
    file = runs.measure(runs.plan("a", pipeline=2, ranks=2), "a", rows([5.0, 4.0]), rank=1)
    comparison = json.loads(compare(a, a, "--format", "json"))
    assert comparison["a"]["metrics_rank"] == 1
    assert comparison["a"]["metrics_file"] == str(file)
    assert comparison["loss"]["last"]["a"] == 4.0
    assert comparison["peak_memory_bytes"]["a"] == 8 << 30


def test_values_that_are_not_finite(runs: Runs, compare: Any) -> None:
    """They have no relative difference, are counted, and are texts in JSON."""
    a = runs.make("a", rows([5.0, math.nan, math.inf, 4.0]), overrides=["exp_name=one"])
    b = runs.make("b", rows([5.0, 4.0, 4.0, math.nan]))
    text = compare(a, b)
    assert "The loss is not finite at 3 common iterations, first at 2." in text
    assert pair(text, "last in common", "Loss") == ["4", "4", "nan", "-"]
    assert pair(text, "largest difference", "Loss") == ["1", "5", "5", "0"]
    found = json.loads(compare(a, b, "--format", "json"), parse_constant=pytest.fail)
    assert found["loss"]["last"]["b"] == "NaN"
    assert found["loss"]["not_finite"] == [2, 3, 4]


@pytest.mark.parametrize("behind", [0, 50, 1 << 16, (1 << 16) + 50, (3 << 16) - 50])
def test_the_last_row_is_found_wherever_it_is(behind: int, runs: Runs, compare: Any) -> None:
    """Files are read from their end in blocks: the row may be in the first, in a later one, or partly in two."""
    a = runs.make("a", [*rows([5.0]), *rows([4.0], first=2, memory_bytes=7 << 30)])
    with (a.parent.parent / "logs/pre_trainer/rank-0/metrics.jsonl").open("a") as file:
        file.write("x" * behind)
    assert pair(compare(a, a), "largest peak memory of a rank")[0] == "7.0 GiB"


def test_a_back_end_that_is_not_installed(runs: Runs, compare: Any) -> None:
    """Its runs are compared all the same, and the text says what is not known then."""
    other = runs.make("b", rows([2.0]), overrides=["framework=elsewhere"])
    text = compare(runs.make("a", rows([2.0])), other)
    assert pair(text, "framework") == ["megatron", "elsewhere"]
    assert "A back end is not installed here" in text


def test_markdown_is_the_same_page(runs: Runs, compare: Any) -> None:
    """Tables of Markdown, without images that are nowhere."""
    a = runs.make("a", rows([2.0]))
    text = compare(a, a, "--format", "markdown")
    assert text.startswith("# Comparison of two runs\n")
    assert "| run | a | a |" in text
    assert "![" not in text


def test_secrets_are_redacted(runs: Runs, compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of a secret variable is in no format, whatever is escaped there."""
    secret = 'h&sh|<i>"t'
    monkeypatch.setenv("HUB_TOKEN", secret)
    a = runs.make("a", rows([2.0]))
    b = runs.make("b", rows([2.0]), overrides=[f"lr='x {secret} y'"])
    for wanted in ("text", "json", "markdown"):
        printed = compare(a, b, "--format", wanted)
        assert "***" in printed or "\\*\\*\\*" in printed
        assert "h&sh" not in printed
        assert "h\\&sh" not in printed


def test_no_such_run(runs: Runs, refused: Any, tmp_path: Path) -> None:
    """A path that is not there, a folder that is no run, and one whose newest run is not known, are told with a
    remedy."""
    run = runs.make("a", rows([2.0]), latest=False)
    absent = refused(tmp_path / "absent", run)
    assert "there is no such run" in absent
    assert str(tmp_path / "absent") in absent
    (tmp_path / "empty").mkdir()
    assert "the folder is no run" in refused(run, tmp_path / "empty")
    assert f"give one of its runs: {run}" in refused(run, run.parent.parent)


@pytest.mark.parametrize("text", ["", "{}", "[]", "not JSON", b"\xff\xfe"])
def test_a_file_that_is_no_plan(text: str | bytes, runs: Runs, refused: Any, tmp_path: Path) -> None:
    """It is refused with its name."""
    (tmp_path / "other.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert "other.json" in refused(runs.make("a", rows([2.0])), tmp_path / "other.json")


def test_a_damaged_report(runs: Runs, refused: Any) -> None:
    """It is told with its path: whether the run succeeded is not guessed."""
    run = runs.make("a", rows([2.0]))
    (run / "report.json").write_text("{")
    assert str(run / "report.json") in refused(run, run)


def test_a_run_without_metrics(runs: Runs, refused: Any) -> None:
    """It is told what is missing: the files, or the run's rows in them."""
    none = runs.make("a", [], codes=(3,))
    told = refused(none, none)
    assert "the run has no metrics" in told
    assert "no line of 1 metrics.jsonl" in told
    assert "exit code 3" in told
    (none.parent.parent / "logs/pre_trainer/rank-0/metrics.jsonl").unlink()
    assert f"there is no rank-N/metrics.jsonl in {none.parent.parent}/logs/pre_trainer" in refused(none, none)


def test_metrics_without_a_loss(runs: Runs, refused: Any) -> None:
    """Where only logs of ranks without the loss are there, it is said which have it."""
    run = runs.make("a", rows([None]), pipeline=2, ranks=4)
    told = refused(run, run)
    assert "the metrics have no loss" in told
    assert "of 2 pipeline stages, only the ranks of the last have it" in told
    assert "copy the logs of all ranks" in told


def test_runs_without_a_common_iteration(runs: Runs, refused: Any) -> None:
    """Both ranges are told."""
    a, b = runs.make("a", rows([2.0] * 3)), runs.make("b", rows([2.0], first=7))
    told = refused(a, b)
    assert "no iteration in common" in told
    assert "iterations 1 to 3" in told
    assert "iterations 7 to 7" in told


@pytest.mark.parametrize("words", [(), ("one",), ("a", "b", "c"), ("a", "b", "--format", "pdf"), ("a", "b", "--x")])
def test_wrong_arguments(words: tuple[str, ...], refused: Any) -> None:
    """They are told before anything is read."""
    assert "primus compare --help" in refused(*words)
