"""Stops and failures of several ranks under torchrun: who hears of it, and how soon all have ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.launchers import runs
from tests.launchers.runs import Run

pytestmark = pytest.mark.slow


def train(folder: Path, entry: str, ranks: int) -> Run:
    run = runs.run(runs.plan_of(folder, f"stopped_tasks:{entry}", ranks=ranks))
    assert not run.left
    return run


def test_a_signal_to_one_rank_stops_all_of_them_after_the_same_iteration(tmp_path: Path) -> None:
    """As when one node of several is taken away: every rank ends with 0, and so does torchrun; the marker is left."""
    run = train(tmp_path, "one_is_told", 3)
    assert run.report.exit_code == 0, run.printed
    (last,) = {rank.iteration for rank in run.report.ranks}
    assert last in range(5, 100), "the signal was sent in iteration 4, and heard then or a little later"
    assert {rank.stopped for rank in run.report.ranks} == {run.report.stopped} == {"SIGUSR1"}
    assert (run.folder / "requeue.json").exists()


def test_a_rank_that_hears_nothing_ends_within_15_seconds_of_the_first_failure(tmp_path: Path) -> None:
    """It gets its ten seconds and is killed; the rank that failed first is the one that is named."""
    run = train(tmp_path, "one_fails_and_one_is_stuck", 2)
    stuck, failed = run.report.ranks
    assert (run.report.exit_code, run.report.first_failure, run.report.stopped) == (3, 1, None)
    assert (stuck.signal, stuck.signalled_first) == ("SIGKILL", True)
    assert 8 < stuck.ended - failed.ended < 13
    assert not (run.folder / "requeue.json").exists()
