"""Tests of communication between ranks: one code path for gloo, NCCL and RCCL. Every repetition is verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from primus_preflight.kernels.timing import repeat
from primus_preflight.performance.values import bus_bytes
from primus_preflight.workers.patterns import WORKS

_SHARE = 0.8
"""The group's own limit comes before the agent's: what gives up by itself need not be ended and started again."""


def communicate(request: Mapping[str, Any], device: torch.device, stage: Callable[[str], None]) -> Mapping[str, Any]:
    """Run one test in a group that is made for it.

    Args:
        request: ``work``, ``size``, ``warmup``, ``iterations``, ``seconds``; of the group ``name``, ``rank``,
            ``world``, ``store`` (address and port).
    """
    rank, world = request["rank"], request["world"]
    buffers = WORKS[request["work"]](request["size"], torch.float32, rank, world, device)
    stage("join")
    with _joined(request, device):
        stage("run")
        for _ in range(request["warmup"]):
            buffers.work()
        seconds: list[float] = []
        wrong = ""
        for _ in range(request["iterations"]):
            buffers.fill()
            _meet(device)
            seconds += repeat(buffers.work, device, warmup=0, iterations=1)
            wrong = wrong or buffers.differences()
        _meet(device)
    return {"seconds": seconds, "wrong": wrong, "amount": bus_bytes(request["work"], buffers.bytes, world)}


@contextmanager
def _joined(request: Mapping[str, Any], device: torch.device) -> Iterator[None]:
    limit = timedelta(seconds=max(1.0, request["seconds"] * _SHARE))
    host, port = request["store"]
    store = distributed.TCPStore(host, port, is_master=False, timeout=limit)
    distributed.init_process_group(
        backend="nccl" if device.type == "cuda" else "gloo",
        store=distributed.PrefixStore(request["name"], store),
        rank=request["rank"],
        world_size=request["world"],
        timeout=limit,
        device_id=device if device.type == "cuda" else None,
    )
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _meet(device: torch.device) -> None:
    """All begin at the same time."""
    distributed.all_reduce(torch.zeros(1, device=device))
    if device.type == "cuda":
        torch.cuda.synchronize(device)
