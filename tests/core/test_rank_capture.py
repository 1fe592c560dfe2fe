"""Whatever a rank's code, its libraries and its helper processes say is in the rank's files, with its source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import evolve

from primus_core.plan import RunPlan
from tests.core.rankruns import Ended, Ranks, settings


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(folder=tmp_path)


def plan(ranks: Ranks, entry: str, **arguments: object) -> RunPlan:
    made = ranks.plan("unused", arguments=arguments)
    return evolve(made, task=evolve(made.task, entry=f"capture_tasks:{entry}"))


def said(ended: Ended, level: str = "info") -> list[str]:
    """Level, source and text of each line of a file."""
    return [line.split(" ", 5)[5] for line in ended.log(level).splitlines()]


@pytest.fixture
def printed(ranks: Ranks) -> Ended:
    return ranks.run(plan(ranks, "prints", own=str(ranks.folder / "own.txt")))


def test_a_file_of_the_users_own_keeps_what_is_printed_to_it(printed: Ended, tmp_path: Path) -> None:
    """`print(x, file=f)` and a `sys.stdout` that the user replaced go where they were sent, and nowhere else."""
    assert (tmp_path / "own.txt").read_text() == "to my own file\n"
    assert (tmp_path / "own.2").read_text() == "redirected by hand\n"
    assert "own file" not in printed.log("debug")
    assert "by hand" not in printed.log("debug")


def test_every_way_to_write_to_the_standard_streams_is_captured(printed: Ended) -> None:
    """print, dunder streams, the binary buffer, descriptors, C's puts, printf and write, and a program that is run."""
    stdout = ["by print", "to dunder stdout", "in parts", "to the buffer", "to descriptor 1"]
    stdout += ["by puts", "by printf 42", "in two printfs", "by a shell"]
    stderr = ["to dunder stderr", "to descriptor 2", "by write", "by its stderr"]
    lines = said(printed)
    assert [line for line in lines if line.startswith("INFO stdout ")] == [f"INFO stdout {text}" for text in stdout]
    assert [line for line in lines if line.startswith("INFO stderr ")] == [f"INFO stderr {text}" for text in stderr]
    assert printed.stdout == ""


def test_what_structlog_adds_is_in_the_record(ranks: Ranks) -> None:
    """Interpolated arguments, bound and context values and exceptions, beside records that have none of them."""
    lines = [line for line in said(ranks.run(plan(ranks, "speaks_structlog")), "debug") if " slog " in line]
    traces = [line.partition(" traceback=")[0] for line in lines if line.endswith('ValueError: of structlog"')]
    assert traces == ["ERROR slog caught", "ERROR slog told"]
    assert [line for line in lines if "traceback=" not in line] == [
        "INFO slog plain n=1",
        "INFO slog counted 3 of four n=2",
        "WARNING slog with its own bound=true n=3",
        "DEBUG slog within n=4 request=r7",
        "ERROR slog no exception",
        "ERROR slog and last n=5",
    ]


@pytest.mark.parametrize(("how", "code"), [("killed", 137), ("exited", 9)])
def test_words_without_newline_just_before_the_end_are_captured(ranks: Ranks, how: str, code: int) -> None:
    """SIGKILL or os._exit right after: what had reached the descriptors is in the log, of Python and of C."""
    ended = ranks.run(plan(ranks, "ends", how=how))
    assert ended.code == code
    lines = said(ended)
    assert "INFO stdout a whole line" in lines
    assert "INFO stdout python's rest and C's rest" in lines
    assert "INFO stderr rest of stderr" in lines
    assert {"python's rest and C's rest", "rest of stderr"} <= set(ended.report.last_lines)


def test_lines_of_threads_stay_whole(ranks: Ranks) -> None:
    """Eight threads at once: every printed line and every record is there, none torn, each thread's in order."""
    lines = said(ranks.run(plan(ranks, "prints_from_threads")))
    for name in range(8):
        printed = [line for line in lines if line.startswith(f"INFO stdout thread {name} ")]
        assert printed == [f"INFO stdout thread {name} line {number:03} " + "x" * 80 for number in range(500)]
        records = [line for line in lines if line.startswith(f"INFO threads thread {name} ")]
        assert records == [f"INFO threads thread {name} record {number:03}" for number in range(500)]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_loaders_worker_speaks_to_its_ranks_files(ranks: Ranks, method: str) -> None:
    """What a worker prints is text with its source, `logging` and `warnings` are records, however it was started."""
    ended = ranks.run(plan(ranks, "loads_in_workers", method=method))
    assert ended.report.result == {"squares": [0, 1, 4], "code": 0}
    lines = said(ended, "debug")
    assert {
        "INFO stdout worker prints",
        "INFO stderr worker writes to stderr",
        "INFO stdout worker puts",
        "INFO stdout worker leaves no newline",
        "DEBUG helpers worker debugs",
        "WARNING helpers worker warns",
    } <= set(lines)
    assert any(re.match(r"WARNING py\.warnings .*UserWarning: worker deprecates", line) for line in lines)
    assert any(re.match(r'ERROR helpers worker excepts traceback=".*ValueError: worker fails', line) for line in lines)
    assert "error, rank 0: worker excepts" in ended.stdout


def test_workers_obey_the_file_level(ranks: Ranks) -> None:
    """A spawned worker makes no records below file_sink_level."""
    made = evolve(plan(ranks, "loads_in_workers", method="spawn"), settings=settings(file_sink_level="WARNING"))
    log = ranks.run(made).log("debug")
    assert "worker warns" in log
    assert "worker debugs" not in log


def test_a_worker_that_outlives_its_rank_is_heard(ranks: Ranks) -> None:
    """The rank's process has ended by os._exit; what its helper says while it is given time is in the log."""
    assert "WARNING helpers outlives its rank" in said(ranks.run(plan(ranks, "leaves_a_speaker")))


def test_the_training_process_holds_no_log_file(ranks: Ranks) -> None:
    """A log file that is deleted when its time has come frees its room at once: only the parent has it open."""
    result: Mapping[str, object] = ranks.run(plan(ranks, "open_files")).report.result
    assert not [name for name in list(result["files"]) if "/logs/" in name]  # type: ignore[call-overload]  # a list
