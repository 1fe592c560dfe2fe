"""Trainings of the tests of the watchdog: small loops over gloo that go wrong in one way each."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed
from torch.utils.file_baton import FileBaton

from primus_core.contract import RankContext
from primus_core.plan import RunPlan

STEPS = 4
_STEP_SECONDS = 0.05


def stuck_in_python(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Rank 1 does not come back from its own code in the third step."""
    _begin()
    for iteration in range(1, STEPS):
        if rank.rank == 1 and iteration == 3:
            endless_loop()
        step(rank, iteration)
    return _end()


def leaves_one_out(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Rank 1 does not take part in the all-reduce of the third step, goes on, and waits elsewhere at the end."""
    _begin()
    for iteration in range(1, STEPS):
        step(rank, iteration, takes_part=not (rank.rank == 1 and iteration == 3))
    wait_at_the_end()
    return _end()


def meets(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """The ranks meet, and that is all."""
    _begin()
    return _end()


def slow_rank(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Rank 2 works three times as long as the others, who wait for it."""
    _begin()
    for iteration in range(1, int(_argument(plan, "steps")) + 1):
        step(rank, iteration, seconds=0.03 if rank.rank == 2 else 0.01)
    return _end()


def comes_back_and_saves(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Rank 1 is away in the second step for longer than an iteration may last, and rank 0 saves for as long at last."""
    _begin()
    for iteration in range(1, STEPS):
        if rank.rank == 1 and iteration == 2:
            time.sleep(_argument(plan, "seconds"))
        step(rank, iteration)
    if rank.rank == 0:
        rank.phase("save")
        time.sleep(_argument(plan, "seconds"))
        rank.phase("train")
    step(rank, STEPS)
    return _end()


def never_begins(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Rank 1 waits for a lock that is there until that is told; the others for rank 1, at the rendezvous."""
    if rank.rank == 1:
        wait_for_lock(Path(plan.run_dir))
    _begin()
    step(rank, 1)
    return _end()


def step(rank: RankContext, iteration: int, *, takes_part: bool = True, seconds: float = _STEP_SECONDS) -> None:
    """Some work, an all-reduce, and a row."""
    time.sleep(seconds)
    loss = torch.ones(4)
    if takes_part:
        distributed.all_reduce(loss)
    rank.metrics({"iteration": iteration, "train_iters": STEPS, "loss": float(loss[0]), "step_seconds": seconds})


def endless_loop() -> None:
    while True:
        time.sleep(0.01)


def wait_at_the_end() -> None:
    distributed.barrier()


def wait_for_lock(run_dir: Path) -> None:
    lock = run_dir / "ops/lock"
    lock.parent.mkdir()
    lock.touch()
    remover = threading.Thread(target=_remove_when_told, args=(lock, run_dir / "ranks"))
    remover.start()
    FileBaton(str(lock)).wait()
    remover.join()


def _remove_when_told(lock: Path, ranks: Path) -> None:
    while not any("builds a library" in verdict.read_text() for verdict in ranks.glob("stall-*/verdict.json")):
        time.sleep(0.1)
    lock.unlink()


def _begin() -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", timeout=timedelta(seconds=120))


def _end() -> Mapping[str, object]:
    """In good order, as back ends do: a group that is still there may abort a process that exits."""
    distributed.destroy_process_group()
    return {}


def _argument(plan: RunPlan, name: str) -> float:
    return float(str(plan.task.arguments[name]))
