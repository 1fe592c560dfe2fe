"""Trainings of the tests of stops and failures, under torchrun."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def one_is_told(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Only rank 2 gets the signal, in the middle of an iteration; the ranks meet in every one."""
    import torch
    from torch import distributed
    from torch.distributed.distributed_c10d import _get_default_store

    distributed.init_process_group("gloo")
    for iteration in range(1, 100):
        if (rank.rank, iteration) == (2, 4):
            os.kill(os.getppid(), signal.SIGUSR1)
        distributed.all_reduce(torch.ones(1))
        rank.metrics({"iteration": iteration, "train_iters": 100})
        if rank.should_stop(iteration, _get_default_store()):
            break
    distributed.destroy_process_group()
    return {"iteration": iteration}


def one_fails_and_one_is_stuck(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Rank 0 hears nothing any more, as in a collective; rank 1 fails."""
    rank.metrics({"iteration": 1, "train_iters": 9})
    if rank.rank == 1:
        time.sleep(1)
        raise ValueError("no more")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1)
