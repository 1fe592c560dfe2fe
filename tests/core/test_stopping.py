"""Ranks that are asked to stop: they finish the iteration, save and end with 0; those that cannot end in time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from attrs import evolve

from primus_core.experiment import Value
from primus_core.failuremark import FailureMark
from primus_core.plan import RunPlan
from primus_core.rank.stopping import Stopping
from tests.core.rankruns import Ended, Ranks, settings, wait_for
from tests.core.tasks.rank_tasks import OneRankStore


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(folder=tmp_path)


def training(
    ranks: Ranks, entry: str = "trains", arguments: dict[str, Value] | None = None, **values: Value
) -> RunPlan:
    """A plan whose task is a training, which alone stops between iterations."""
    plan = ranks.plan(entry, arguments=arguments or {}, settings=settings(**values))
    return evolve(plan, task=evolve(plan.task, kind="train"))


def started(ranks: Ranks, plan: RunPlan, word: str = "ready") -> subprocess.Popen[str]:
    process = ranks.start(plan)
    wait_for(process, word)
    return process


def requeue(ended: Ended) -> dict[str, object] | None:
    path = ended.run_dir / "requeue.json"
    return json.loads(path.read_text()) if path.exists() else None


@pytest.mark.parametrize(
    ("number", "chosen"),
    [
        (signal.SIGTERM, None),
        (signal.SIGUSR1, None),
        (signal.SIGUSR2, ["SIGUSR2"]),
        (signal.SIGINT, ["SIGTERM", "SIGINT"]),
    ],
)
def test_a_stopped_rank_ends_with_0_and_asks_for_requeue(
    ranks: Ranks, number: signal.Signals, chosen: list[Value] | None
) -> None:
    """A stop signal ends a training after an iteration; report and marker say which, where and for what signal."""
    plan = training(ranks, stop_signals=chosen)
    process = started(ranks, plan)
    process.send_signal(number)
    ended = ranks.end(plan, process)
    report, marker = ended.report, requeue(ended)
    assert (ended.code, report.phase, report.stopped, report.signalled_first) == (0, "done", number.name, False)
    assert marker is not None
    assert marker["signal"] == number.name
    assert marker["iteration"] == report.iteration
    assert marker["checkpoint"] == f"/checkpoints/{report.iteration}"
    assert f"stop        {number.name}: the run ends after iteration {report.iteration}" in ended.stdout


def test_a_rank_that_has_nothing_to_save_yet_ends_at_once(ranks: Ranks) -> None:
    """Before its first iteration is over a rank dies of the signal, which is a stop like any other."""
    plan = training(ranks, "sleeps")
    process = started(ranks, plan, "asleep")
    process.terminate()
    ended = ranks.end(plan, process)
    assert (ended.code, ended.report.stopped, ended.report.signalled_first) == (0, "SIGTERM", False)
    assert requeue(ended) is not None


def test_a_signal_that_is_no_stop_signal_ends_as_ever(ranks: Ranks) -> None:
    """Without any stop signal SIGTERM ends the rank at once with 143, and no marker is left."""
    plan = training(ranks, stop_signals=[])
    process = started(ranks, plan)
    process.terminate()
    ended = ranks.end(plan, process)
    assert (ended.code, ended.report.stopped, ended.report.signalled_first) == (143, None, True)
    assert requeue(ended) is None


def test_after_a_failure_elsewhere_the_same_signal_means_the_end(ranks: Ranks) -> None:
    """torchrun ends the survivors of a failure by SIGTERM: they neither save nor ask for requeue."""
    plan = training(ranks)
    process = started(ranks, plan)
    FailureMark(f"{plan.run_dir}/ranks").set({"rank": 1})
    process.terminate()
    ended = ranks.end(plan, process)
    assert ended.code == 128 + signal.SIGHUP
    assert (ended.report.stopped, ended.report.signalled_first) == (None, True)
    assert requeue(ended) is None


def test_a_stop_that_a_failure_interrupts_is_given_up(ranks: Ranks) -> None:
    """A rank that waits for a peer which failed meanwhile ends within the grace period, not the time to save."""
    plan = training(ranks, arguments={"stalls_at": 3}, grace_seconds=1.0)
    process = started(ranks, plan, "stalled")
    process.terminate()
    time.sleep(0.3)
    began = time.monotonic()
    FailureMark(f"{plan.run_dir}/ranks").set({"rank": 1})
    ended = ranks.end(plan, process)
    assert time.monotonic() - began < 10
    assert (ended.report.stopped, ended.report.signalled_first) == (None, True)


def test_a_rank_that_cannot_stop_in_time_is_killed(ranks: Ranks) -> None:
    """What takes longer than stop_seconds is a failure that says so."""
    plan = training(ranks, arguments={"stalls_at": 3}, stop_seconds=1.0)
    process = started(ranks, plan, "stalled")
    process.terminate()
    ended = ranks.end(plan, process)
    assert (ended.code, ended.report.signal, ended.report.stopped) == (137, "SIGKILL", None)
    assert "did not end in time after SIGTERM" in ended.log("error")


def test_ranks_stop_after_the_same_iteration() -> None:
    """Whichever rank hears the signal, and wherever the others are within the iteration, all end after one."""
    store, ranks = OneRankStore(), [Stopping([signal.SIGUSR1]), Stopping([signal.SIGUSR1])]
    before = signal.getsignal(signal.SIGUSR1)
    try:
        assert [rank.after(1, store) for rank in ranks] == [False, False]
        os.kill(os.getpid(), signal.SIGUSR1)  # the second has the handler
        answers = [[rank.after(iteration, store) for rank in ranks] for iteration in (2, 3)]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert answers == [[False, False], [True, True]]
    assert {rank.agreed for rank in ranks} == {(3, "SIGUSR1")}


def test_a_mark_of_an_earlier_start_is_none(tmp_path: Path) -> None:
    """Only what fails after a rank began makes its signals mean the end; the first failure is the one kept."""
    early = FailureMark(str(tmp_path))
    early.set({"rank": 4})
    late = FailureMark(str(tmp_path))
    assert (early.is_set(), late.is_set()) == (True, False)
    late.set({"rank": 5})
    early.set({"rank": 6})
    assert late.is_set()
    assert json.loads((tmp_path / "failed.json").read_text()) == {"rank": 5}
