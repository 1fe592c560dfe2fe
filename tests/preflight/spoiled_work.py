"""Tests of one device on a device that errs once: in one repetition, by as little as a type can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import torch
from torch.nn import functional

from primus_core.contract import RankContext
from primus_core.plan import RunPlan
from primus_preflight.workers.computing import compute

CPU = torch.device("cpu")
_CALL = 3
"""The one that errs: of the first or second repetition, after one that warms up."""


def run(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """What is told of a test's results: as they are, and with the fault that the plan's arguments name."""
    asked = plan.task.arguments
    request = {"warmup": 1, "iterations": 4, "gemm_size": 128, "memory_bytes": 4096, **asked}
    well = compute(request, CPU, lambda stage: None)
    owner, name, spoil = _FAULTS[str(asked["fault"])]
    right = getattr(owner, name)
    calls: list[int] = []

    def once(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return spoil(right, *arguments, **options) if len(calls) == _CALL else right(*arguments, **options)

    with mock.patch.object(owner, name, once):
        ill = compute(request, CPU, lambda stage: None)
    return {"well": well["wrong"], "ill": ill["wrong"], "repetitions": len(ill["seconds"])}


def _one_more(right: Callable[..., Any], *arguments: Any, out: torch.Tensor) -> object:
    """The smallest element of a product is off by the least that the type can tell."""
    right(*arguments, out=out)
    at = int(out.abs().argmin())
    out.view(-1)[at] += 1
    return out


def _nothing(right: Callable[..., Any], *arguments: Any, **options: Any) -> object:
    return None


def _loss(right: Callable[..., Any], *arguments: Any, **options: Any) -> object:
    return right(*arguments, **options) * 1.01


_FAULTS: Mapping[str, tuple[Any, str, Callable[..., Any]]] = {
    "one more": (torch, "matmul", _one_more),
    "no product": (torch, "matmul", _nothing),
    "no copy": (torch.Tensor, "copy_", _nothing),
    "loss": (functional, "mse_loss", _loss),
}
