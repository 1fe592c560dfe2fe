"""How real ranks end: reports, exit codes, signals and what is left behind."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from primus_core.outcome import Problem
from tests.core.rankruns import Ranks, wait_for
from tests.core.tasks.rank_tasks import helper_commands


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(folder=tmp_path)


def test_a_rank_that_works_reports_its_result(ranks: Ranks) -> None:
    """A finished rank exits 0 and its report has phase, iteration, result, times and memory."""
    ended = ranks.run("works")
    report = ended.report
    assert (ended.code, ended.stderr) == (0, "")
    assert (report.run_id, report.rank, report.phase, report.iteration) == ("run1", 0, "done", 3)
    assert (report.exit_code, report.signal, report.failure) == (0, None, None)
    assert report.result == {"loss": 2.5}
    assert report.peak_memory_bytes > 10_000_000
    assert 0 <= report.ended - report.started < 30
    assert not list((ended.run_dir / "ranks").glob("*.stacks"))


def test_a_killed_rank_is_reported(ranks: Ranks) -> None:
    """SIGKILL: exit code 137, and the report knows phase, iteration and the last words."""
    ended = ranks.run("killed")
    report = ended.report
    assert (ended.code, report.exit_code, report.signal) == (137, 137, "SIGKILL")
    assert (report.phase, report.iteration, report.signalled_first) == ("script", 2, False)
    assert "last words" in report.last_lines
    assert "error, rank 0: killed by SIGKILL in phase script, iteration 2" in ended.stdout


def test_a_crash_is_reported_with_its_stack(ranks: Ranks) -> None:
    """SIGSEGV: the report has the Python stack, which is also in the rank's stacks file."""
    ended = ranks.run("crashes")
    failure = ended.report.failure
    assert ended.code == 128 + signal.SIGSEGV
    assert failure is not None
    assert (failure.type, failure.text) == ("SIGSEGV", "Fatal Python error: Segmentation fault")
    assert "in crashes" in failure.traceback
    assert failure.at.endswith(" in crashes")
    assert "in crashes" in (ended.run_dir / "ranks/rank-0.stacks").read_text()


def test_a_hard_exit_is_reported(ranks: Ranks) -> None:
    """os._exit(7) is exit code 7 with the phase it happened in."""
    ended = ranks.run("leaves_hard")
    assert (ended.code, ended.report.phase, ended.report.failure) == (7, "script", None)
    assert "ended with exit code 7 in phase script" in ended.log("error")


@pytest.mark.parametrize("code", [0, 5])
def test_sys_exit_keeps_its_code(ranks: Ranks, code: int) -> None:
    """SystemExit, a trainer's graceful early exit included, decides the exit code."""
    assert ranks.run(ranks.plan("leaves_softly", arguments={"code": code})).code == code


@pytest.mark.parametrize(
    ("entry", "code", "kind", "text"),
    [
        ("raises", 3, "ValueError", "the loss is gone"),
        ("refuses", 2, "ConfigError", "exp.yaml:7: vocabulary too large\n300 > 256\nuse another tokenizer"),
        ("returns_nothing", 3, "RunError", "rank_tasks:returns_nothing returned NoneType, not a map"),
        ("is_not_there", 1, "DependencyError", "rank_tasks has no function 'is_not_there'\nInstall"),
    ],
)
def test_an_exception_is_reported(ranks: Ranks, entry: str, code: int, kind: str, text: str) -> None:
    """A Primus error keeps its exit code, any other exception is 3; type, text and traceback are in the report."""
    ended = ranks.run(entry)
    failure = ended.report.failure
    assert ended.code == code
    assert failure is not None
    assert failure.type == kind
    assert failure.text.startswith(text)
    assert "Traceback" in failure.traceback
    assert " in " in failure.at
    assert {"python", "linux"} <= set(ended.report.versions)
    assert f"error, rank 0: {kind}: {text.splitlines()[0]}" in ended.stdout
    assert len(ended.log("error").splitlines()) == 1


def test_the_exceptions_that_led_to_another_are_in_the_report(ranks: Ranks) -> None:
    """The chain, nearest first, as a traceback shows it: what `raise ... from None` hides is left out."""
    failure = ranks.run("raises_from").report.failure
    assert failure is not None
    assert [(one.type, one.text) for one in failure.chain] == [("KeyError", "'tokens'"), ("OSError", "no file")]
    assert all(one.at.endswith(" in raises_from") for one in (failure, *failure.chain))


def test_problems_that_primus_explains_are_in_the_report(ranks: Ranks) -> None:
    """What, where, why and remedy of each of several problems are kept apart, and each is a line of the console."""
    ended = ranks.run("refuses_twice")
    failure = ended.report.failure
    assert failure is not None
    assert failure.problems == (Problem(what="one", why="because\nof this"), Problem(what="two", where="key"))
    assert failure.text == "one\nbecause\nof this\nkey: two"
    assert ended.stdout.splitlines()[-2:] == [
        r'error, rank 0: ConfigError: one why="because\nof this"',
        "error, rank 0: RunError: key: two",
    ]
    assert ended.code == 2


def test_torchrun_is_told_the_reason(ranks: Ranks, tmp_path: Path) -> None:
    """The error file has message, traceback and whole-second time in torchrun's layout."""
    ended = ranks.run("raises", TORCHELASTIC_ERROR_FILE=str(tmp_path / "error.json"))
    message = json.loads((tmp_path / "error.json").read_text())["message"]
    assert message["message"] == "ValueError: the loss is gone"
    assert "in raises" in message["extraInfo"]["py_callstack"]
    assert int(message["extraInfo"]["timestamp"]) == int(ended.report.ended)


def test_signals_reach_the_child_once(ranks: Ranks) -> None:
    """USR1 and TERM are forwarded; HUP counts as TERM, and a repeated one is not passed on."""
    plan = ranks.plan("catches_signals")
    process = ranks.start(plan)
    wait_for(process, "ready")
    process.send_signal(signal.SIGUSR1)
    wait_for(process, "got SIGUSR1")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    ended = ranks.end(plan, process)
    assert ended.code == 0
    assert ended.report.result == {"seen": ["SIGUSR1", "SIGTERM"]}
    assert ended.report.signalled_first


def test_a_child_that_does_not_end_is_killed_in_time(ranks: Ranks) -> None:
    """A rank that ignores SIGTERM is killed before torchrun's own time-out, and reported."""
    plan = ranks.plan("ignores_term")
    process = ranks.start(plan, TORCH_ELASTIC_SHUTDOWN_TIMEOUT="1.5")
    wait_for(process, "ready")
    began = time.monotonic()
    process.terminate()
    ended = ranks.end(plan, process)
    assert 0.9 < time.monotonic() - began < 15
    assert (ended.code, ended.report.signal, ended.report.signalled_first) == (137, "SIGKILL", True)
    assert "did not end in time after SIGTERM" in ended.log("error")


@pytest.mark.parametrize(("leave", "result"), [(False, {"loss": 2.5}), (True, {})])
def test_a_child_that_hangs_after_its_work_is_ended_and_its_result_stands(
    ranks: Ranks, leave: bool, result: dict[str, float]
) -> None:
    """An interpreter that does not shut down is killed in time and named in a warning; that is no failure."""
    plan = ranks.plan("hangs_at_the_end", arguments={"leave": leave})
    error_file = ranks.folder / "error.json"
    ended = ranks.run(plan, PRIMUS_SHUTDOWN_SECONDS="0.5", TORCHELASTIC_ERROR_FILE=str(error_file))
    report = ended.report
    assert (ended.code, report.exit_code, report.signal, report.phase) == (0, 0, None, "done")
    assert (report.result, report.failure) == (result, None)
    assert "warning, rank 0: the work is done, but the process did not end by itself" in ended.stdout
    assert not error_file.exists()


def test_ctrl_c_leaves_nothing_running(ranks: Ranks) -> None:
    """SIGINT ends child, helpers and daemons; the rank exits 130 and is no failure of its own."""
    plan = ranks.plan("waits_with_helpers")
    process = ranks.start(plan)
    wait_for(process, "asleep")
    process.send_signal(signal.SIGINT)
    ended = ranks.end(plan, process)
    assert (ended.code, ended.report.signal, ended.report.signalled_first) == (130, "SIGINT", True)
    assert ended.report.failure is None
    assert not _running(plan.run_dir, *helper_commands(plan.run_dir))


def test_helpers_that_hold_the_pipes_are_ended_and_named(ranks: Ranks) -> None:
    """What a rank leaves behind gets two seconds to end by itself, is then killed, and named in the log."""
    plan = ranks.plan("leaves_helpers")
    ended = ranks.run(plan)
    assert ended.code == 0
    assert ended.report.ended < time.time() - 1.5
    assert "killed 3 processes that the rank left behind" in ended.log("info")
    assert ended.stdout == ""
    assert not _running(plan.run_dir, *helper_commands(plan.run_dir))


def test_a_killed_parent_takes_the_child_along(ranks: Ranks) -> None:
    """SIGKILL of the parent ends the child too."""
    plan = ranks.plan("sleeps")
    process = ranks.start(plan)
    wait_for(process, "asleep")
    process.kill()
    process.communicate(timeout=55)
    deadline = time.monotonic() + 30
    while _running(plan.run_dir) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _running(plan.run_dir)


def _running(run_dir: str, *commands: str) -> list[str]:
    """Live processes of a run, found by its folder, and those with one of the given command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if run_dir in command or command in commands:
            found.append(command)
    return found


def test_usr2_writes_stacks(ranks: Ranks) -> None:
    """SIGUSR2 writes every thread's stack to the rank's stacks file, and the rank goes on."""
    plan = ranks.plan("catches_signals")
    process = ranks.start(plan)
    wait_for(process, "ready")
    process.send_signal(signal.SIGUSR2)
    stacks = Path(plan.run_dir) / "ranks/rank-0.stacks"
    deadline = time.monotonic() + 20
    while "in catches_signals" not in stacks.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.terminate()
    assert ranks.end(plan, process).code == 0
    assert "in catches_signals" in stacks.read_text()
