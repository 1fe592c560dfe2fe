"""The device of a rank, and what a row says of it."""

from __future__ import annotations

import socket
from pathlib import Path

import torch

from primus_core.contract import RankContext
from primus_core.errors import DependencyError
from primus_core.experiment import Value
from primus_core.plan import RunPlan

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def device_of(plan: RunPlan, rank: RankContext) -> torch.device:
    """The rank's device, made the current one.

    Raises:
        DependencyError: the plan is for GPUs, and torch finds none for this rank.
    """
    if plan.target.accelerator == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if rank.local_rank >= count:
        raise DependencyError(
            f"torch finds {count} GPUs here, and rank {rank.rank} wants number {rank.local_rank}",
            where=socket.gethostname(),
            remedy="give --nproc the number of GPUs, or install a torch that is built for them",
        )
    torch.cuda.set_device(rank.local_rank)
    return torch.device("cuda", rank.local_rank)


def device_name(device: torch.device) -> str:
    """What the driver calls it; the processor's name for the CPU."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "CPU")


def about(plan: RunPlan, rank: RankContext, device: torch.device) -> dict[str, Value]:
    """Host, device and versions."""
    return {
        "host": socket.gethostname(),
        "rank": rank.rank,
        "world_size": rank.world_size,
        "nodes": plan.target.nodes,
        "device": device_name(device),
        "accelerator": plan.target.accelerator,
        "torch": torch.__version__,
        "runtime": _runtime(device),
    }


def _runtime(device: torch.device) -> str:
    if device.type != "cuda":
        return ""
    base = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
    library = ".".join(map(str, torch.cuda.nccl.version()))
    return f"{base}, {'RCCL' if torch.version.hip else 'NCCL'} {library}"
