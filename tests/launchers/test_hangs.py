"""Runs that stand still, and ranks that are slow: caused for real, under torchrun, and told by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from primus_core.experiment import Value
from tests.golden import check
from tests.launchers import runs
from tests.launchers.runs import Run

pytestmark = pytest.mark.slow

NUMBERS = {
    r"watched_tasks\.py:\d+": "watched_tasks.py:<LINE>",
    r"error, rank \d: ranks": "error, rank <N>: ranks",
    r"(?m)^warning, rank \d": "warning, rank <N>",
}


def train(folder: Path, entry: str, ranks: int, arguments: Mapping[str, Value] | None = None, **settings: Value) -> Run:
    plan = runs.plan_of(folder, f"watched_tasks:{entry}", ranks=ranks, arguments=arguments, settings=settings)
    return runs.run(plan)


def without_rows(printed: str) -> str:
    """What was printed, without the lines of the iterations: how many of them are shown depends on the time."""
    return "\n".join(line for line in printed.splitlines() if not line.startswith("iteration "))


def test_a_rank_that_is_stuck_in_python_is_named_with_its_line(tmp_path: Path) -> None:
    """The others wait in an all-reduce; the screen names the rank that does not come and the line where it is.

    Every rank has left its stacks, and what it answered, in the run directory.
    """
    run = train(tmp_path, "stuck_in_python", 3, hang_timeout_seconds=2.0)
    check(without_rows(run.printed), "hang-stuck-in-python", replace=NUMBERS)
    assert (run.report.exit_code, run.report.first_failure, run.left) == (3, 1, ())
    stall = run.report.stall
    assert stall is not None
    assert (stall.waiting, [one.rank for one in stall.missing]) == ((0, 2), [1])
    assert "in endless_loop" in stall.missing[0].place
    assert stall.collective == "all_reduce #3 of the default group, input [[4]]"
    ranks = run.folder / "ranks"
    assert "in endless_loop" in (ranks / "rank-1.stacks").read_text()
    assert all("in step" in (ranks / f"rank-{rank}.stacks").read_text() for rank in (0, 2))
    answers = [json.loads((ranks / f"stall-0/rank-{rank}.json").read_text()) for rank in (0, 1, 2)]
    assert [len(answer["calls"]) for answer in answers] == [3, 2, 3]


def test_a_rank_that_left_out_an_all_reduce_is_named(tmp_path: Path) -> None:
    """All ranks wait, but one of them in another collective: the screen tells which, and where it went on."""
    run = train(tmp_path, "leaves_one_out", 3, hang_timeout_seconds=2.0)
    check(without_rows(run.printed), "hang-left-one-out", replace=NUMBERS)
    assert (run.report.exit_code, run.report.first_failure, run.left) == (3, 1, ())


def test_a_hang_may_be_told_only_and_a_long_save_is_none(tmp_path: Path) -> None:
    """With hang_action=tell the run goes on: a rank that comes back after the limit finishes its training.

    A rank that saves for as long is not told, although the others wait for it in the next step.
    """
    run = train(tmp_path, "comes_back_and_saves", 2, {"seconds": 6}, hang_timeout_seconds=2.0, hang_action="tell")
    assert (run.report.exit_code, run.left) == (0, ())
    assert "rank 0 has waited" in run.printed
    assert "for rank 1 in all_reduce #2" in run.printed
    assert "rank 1 has waited" not in run.printed


def test_a_slow_rank_is_told_once(tmp_path: Path) -> None:
    """All ranks take the same time for a step; the one that the others wait for is told, once, with its host."""
    run = train(tmp_path, "slow_rank", 3, {"steps": 260})
    assert run.report.exit_code == 0, run.printed
    assert [one.rank for one in run.report.stragglers] == [2]
    assert run.printed.count("is slow: its own work takes") == 1
    assert run.report.stragglers[0].fleet_score > 1.5
    told = next(line for line in run.printed.splitlines() if "is slow" in line)
    figures = {r"\d+\.\d+": "<N>", r"seen at iteration \d+": "seen at iteration <N>"}
    figures["it became slow"] = "it has been slow from the start"  # on a machine that was quick for a moment
    check(told, "straggler", replace={**NUMBERS, **figures})


def test_a_start_that_stands_still_is_told_with_what_is_waited_for(tmp_path: Path) -> None:
    """Before the first iteration: one rank waits for the lock of a library's build, the others for that rank."""
    run = train(tmp_path, "never_begins", 3, startup_stall_seconds=5.0)
    assert run.report.exit_code == 0
    told = next(line for line in run.printed.splitlines() if "builds a library" in line)
    check(told, "start-stands-still", replace=NUMBERS)
    assert "rank 1: phase train, waits for another process that builds a library" in told
    assert "ranks 0, 2: phase train, waits for the rendezvous: ranks that have not come" in told
    assert "in wait_for_lock" in told
