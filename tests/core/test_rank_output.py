"""What real ranks write to log files, metrics and the console."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from primus_core.log.metrics import NAMES
from tests.core.rankruns import SECRET, Ranks, settings


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(folder=tmp_path)


def test_the_console_has_metrics_notices_and_own_warnings_only(ranks: Ranks) -> None:
    """Plain console: iterations, notices, Primus' warnings and everybody's errors, with the rank; no library noise."""
    ended = ranks.run("works")
    assert ended.stdout.splitlines() == [
        "iteration 1/3  loss 2.500  lr 1.0e-03  1,000 tokens/s  0.5 s/step  1 s left",
        "iteration 2/3  loss 2.500  lr 1.0e-03  1,000 tokens/s  0.5 s/step  1 s left",
        "iteration 3/3  loss 2.500  lr 1.0e-03  1,000 tokens/s  0.5 s/step",
        "state       all is well",
        'warning, rank 0: mind the gap where="two words" line="a\\nb"',
        "error, rank 0: library failure",
    ]


def test_other_ranks_are_silent_but_for_warnings(ranks: Ranks) -> None:
    """Rank 1 writes its own files; its notices and metrics are not on the console, its warnings are."""
    ended = ranks.run("works", RANK="1", WORLD_SIZE="2", LOCAL_RANK="1")
    assert [line.partition(":")[0] for line in ended.stdout.splitlines()] == ["warning, rank 1", "error, rank 1"]
    assert len(ended.rows) == 3
    assert {row["rank"] for row in ended.rows} == {1}


def test_events_are_forwarded_to_a_host_that_renders(ranks: Ranks) -> None:
    """With PRIMUS_CONSOLE=events the console's lines are events with rank and host, metrics not thinned."""
    lines = ranks.run("works", PRIMUS_CONSOLE="events").stdout.removesuffix("\n").split("\n")
    assert all(line.startswith("\x1e") for line in lines)
    events = [json.loads(line[1:]) for line in lines]
    assert [event["row"]["iteration"] for event in events if event["kind"] == "metrics"] == [1, 2, 3]
    assert [event["text"] for event in events if event["kind"] == "notice"] == ["all is well"]
    assert {"import", "script", "done"} <= {event["name"] for event in events if event["kind"] == "phase"}
    assert all(event["rank"] == 0 and event["host"] for event in events)


def test_a_phase_is_told_when_it_changes(ranks: Ranks) -> None:
    """A task that says its phase again and again does not repeat itself on the way to the console."""
    lines = ranks.run("repeats_its_phase", PRIMUS_CONSOLE="events").stdout.removesuffix("\n").split("\n")
    events = [json.loads(line[1:]) for line in lines]
    names = [event["name"] for event in events if event["kind"] == "phase"]
    assert names == ["preflight", "import", "script", "save", "script", "done"]


def test_log_lines_have_fixed_columns(ranks: Ranks) -> None:
    """Each line says UTC time, run, host, rank, module, level, source, event and values."""
    lines = ranks.run("works").log("debug").splitlines()
    columns = re.compile(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z run1 \S+ rank-0 trainer (DEBUG|INFO|WARNING|ERROR) \S+ .+"
    )
    assert [line for line in lines if not columns.fullmatch(line)] == []
    said = {line.split(" ", 5)[5] for line in lines}
    assert {
        "DEBUG primus fine detail depth=3",
        'WARNING primus mind the gap where="two words" line="a\\nb"',
        "WARNING somelib.inner library chatter",
        "INFO primus_plugin structured answer=42",
        "INFO stdout printed line",
        "INFO stderr on stderr",
        "INFO stdout from C",
        "INFO primus state: all is well",
    } <= said
    assert any("WARNING py.warnings" in line and "deprecated thing" in line for line in lines)


@pytest.mark.parametrize(
    ("level", "has", "lacks"),
    [
        ("info", ["printed line", "mind the gap", "library failure"], ["fine detail"]),
        ("warning", ["mind the gap", "library failure"], ["printed line", "fine detail"]),
        ("error", ["library failure"], ["mind the gap"]),
    ],
)
def test_a_level_file_holds_its_level_and_above(ranks: Ranks, level: str, has: list[str], lacks: list[str]) -> None:
    """info.log lacks debug records, warning.log also infos, error.log has errors alone."""
    text = ranks.run("works").log(level)
    assert all(part in text for part in has)
    assert not any(part in text for part in lacks)


def test_the_file_level_is_obeyed(ranks: Ranks) -> None:
    """file_sink_level is the lowest level that any file has."""
    log = ranks.run(ranks.plan("works", settings=settings(file_sink_level="WARNING"))).log("debug")
    assert "printed line" not in log
    assert "mind the gap" in log


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("DEBUG", {"fine detail", "structured", "mind the gap", "library failure"}),
        ("INFO", {"structured", "mind the gap", "library failure"}),
        ("WARNING", {"mind the gap", "library failure"}),
        ("ERROR", {"library failure"}),
    ],
)
def test_the_console_level_is_about_own_records(ranks: Ranks, level: str, shown: set[str]) -> None:
    """stderr_sink_level decides on Primus' records; libraries show errors only, and never what they print."""
    said = {"fine detail", "structured", "mind the gap", "library failure", "library chatter", "printed line"}
    stdout = ranks.run(ranks.plan("works", settings=settings(stderr_sink_level=level))).stdout
    assert {text for text in said if text in stdout} == shown


def test_the_shells_level_counts_more(ranks: Ranks) -> None:
    """PRIMUS_LOG_LEVEL, which is for one run, is the console's level whatever the experiment says."""
    plan = ranks.plan("works", settings=settings(stderr_sink_level="ERROR"))
    stdout = ranks.run(plan, PRIMUS_LOG_LEVEL="Info").stdout
    assert ["structured" in stdout, "fine detail" in stdout] == [True, False]


def test_metrics_have_all_columns_and_append_over_restarts(ranks: Ranks) -> None:
    """metrics.jsonl has every column on each line, null where there is no figure, and the id of its run."""
    ranks.run("works")
    second = ranks.run(ranks.plan("works", run_id="run2", run_dir=str(ranks.folder / "exp/runs/run2")))
    assert [(row["run_id"], row["iteration"]) for row in second.rows] == [
        (run, iteration) for run in ("run1", "run2") for iteration in (1, 2, 3)
    ]
    assert all(tuple(row) == NAMES for row in second.rows)
    assert second.rows[0]["mfu"] is None
    assert second.log("debug").count("printed line") == 2


def test_a_metric_that_does_not_exist_is_refused(ranks: Ranks) -> None:
    """A back end that invents a column fails at its first row."""
    failure = ranks.run("unknown_metric").report.failure
    assert failure is not None
    assert "no such metric: perplexity" in failure.text


def test_a_flood_of_output_reaches_the_log_whole(ranks: Ranks) -> None:
    """20 MB of lines are all in the log, none on the console."""
    ended = ranks.run("floods")
    assert ended.log("info").count("x" * 99) == 200_000
    assert ended.stdout == ""


def test_an_unfinished_line_is_kept(ranks: Ranks) -> None:
    """A last line without newline is in log and report."""
    ended = ranks.run("unfinished_line")
    assert "stdout no newline at the end\n" in ended.log("info")
    assert ended.report.last_lines[-1] == "no newline at the end"


def test_odd_bytes_become_readable(ranks: Ranks) -> None:
    """Bytes that are no UTF-8 and control characters are escaped, colours removed."""
    assert r"stdout latin \xe9 and red and a bell \x07" in ranks.run("not_utf8").log("info")


def test_secrets_are_nowhere(ranks: Ranks, tmp_path: Path) -> None:
    """A secret's value is in no file and on no console, however it was said; *** stands for it."""
    ended = ranks.run("tells_secrets", TORCHELASTIC_ERROR_FILE=str(tmp_path / "error.json"))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    texts = [path.read_text() for path in files] + [ended.stdout, ended.stderr]
    forms = (SECRET, json.dumps(SECRET)[1:-1])
    assert [text for text in texts if any(form in text for form in forms)] == []
    log = ended.log("info")
    assert all(part in log for part in ("token=***", "split *** end", "logged *** value=", "noticed ***"))
    assert ended.report.failure is not None
    assert ended.report.failure.text == "raised ***"


def test_a_secret_that_is_a_column_spares_the_column(ranks: Ranks) -> None:
    """A short secret that a column happens to hold is masked in what is said; the line keeps its columns."""
    lines = ranks.run("tells_secrets", HUB_TOKEN="trainer").log("info").splitlines()
    told = [line.split(" ", 5)[5] for line in lines if " rank-0 trainer " in line]
    assert len(told) == len(lines)
    assert {"INFO stdout token=***", "WARNING primus logged *** value=***"} <= set(told)
