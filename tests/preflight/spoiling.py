"""A network that spoils values: what the check of collectives makes of them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from primus_core.contract import RankContext
from primus_core.plan import RunPlan
from primus_preflight.kernels.buffers import COLLECTIVES
from primus_preflight.kernels.together import together


def run(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Every collective once; on the last rank one bit of what arrives is changed before it is looked at."""
    device, faults = torch.device("cpu"), {}
    with together(rank, device, "gloo") as all_ranks:
        for op, kind in COLLECTIVES.items():
            one = kind(1024, torch.float32, rank.rank, rank.world_size, device)
            one.fill()
            one.work()
            all_ranks.meet()
            if rank.rank == rank.world_size - 1:
                one.arrived().view(torch.int32)[3] ^= 1
            faults[op] = one.fault()
    return {"faults": faults}
