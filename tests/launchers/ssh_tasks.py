"""Tasks of the tests of the launcher `ssh`: small ones, that need no training library."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def wait(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Say that the rank is there, and stay."""
    rank.notice("waiting", "here")
    here(plan, rank)
    time.sleep(600)
    return {}


def fail(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Rank 1 fails once all are there; the others wait."""
    here(plan, rank)
    if rank.rank == 1:
        while not all(Path(plan.run_dir, f"here-{one}").exists() for one in range(rank.world_size)):
            time.sleep(0.05)
        raise RuntimeError("rank 1 has had enough")
    time.sleep(600)
    return {}


def talk(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Write what is no event, and end."""
    os.write(2, f"rank {rank.rank} of {rank.world_size} in {os.getcwd()}, {rank.env['SHOWN_TOKEN']}\n".encode())
    return {}


def fails_once(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Rank 1 fails in the first start; in the next one the ranks go on until they are told to stop, and save."""
    from torch import distributed
    from torch.distributed.distributed_c10d import _get_default_store

    if rank.env["PRIMUS_ATTEMPT"] == "1":
        return fail(plan, rank)
    distributed.init_process_group("gloo")
    for iteration in range(1, 100000):
        rank.metrics({"iteration": iteration, "train_iters": 100000})
        if iteration == 2:
            Path(plan.run_dir, f"again-{rank.rank}").touch()
        time.sleep(0.05)
        if rank.should_stop(iteration, _get_default_store()):
            break
    rank.phase("save")
    Path(plan.run_dir, f"saved-{rank.rank}").write_text(str(iteration))
    distributed.destroy_process_group()
    return {}


def here(plan: RunPlan, rank: RankContext) -> None:
    """Leave a file by which a test sees that the rank does its task."""
    Path(plan.run_dir, f"here-{rank.rank}").touch()
