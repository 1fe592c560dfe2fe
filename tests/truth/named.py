"""A CPU that says it is an accelerator whose peak is known, for the utilization that a run tells of it."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any
from unittest import mock

from primus_core.contract import RankContext
from primus_core.plan import RunPlan

NAME = "AMD Instinct MI300X"
PEAKS = {"bf16": 1307.4e12, "fp32": 163.4e12}
"""FLOP/s of one, by its maker's data sheet."""


def megatron(plan: RunPlan, rank: RankContext) -> Any:
    """A whole training, which asks for the name of its GPU."""
    import torch

    from primus_backend_megatron.rank import metrics

    original = metrics.peak_rate
    with (
        mock.patch.object(metrics, "peak_rate", lambda accelerator, args: original("rocm", args)),
        mock.patch.object(torch.cuda, "get_device_name", return_value=NAME),
    ):
        return _run(plan, rank)


def torchtitan(plan: RunPlan, rank: RankContext) -> Any:
    """A whole training, whose own monitor of the device's memory knows its name."""
    from primus_backend_torchtitan.rank.metrics import RunMetrics

    original = RunMetrics._utilization

    def utilization(self: Any, rate: float) -> float | None:
        target = SimpleNamespace(accelerator="rocm")
        session = SimpleNamespace(plan=SimpleNamespace(target=target), native=self._session.native)
        seen = SimpleNamespace(
            _session=session,
            has_quantization=self.has_quantization,
            device_memory_monitor=SimpleNamespace(device_name=NAME),
        )
        return original(seen, rate)

    with mock.patch.object(RunMetrics, "_utilization", utilization):
        return _run(plan, rank)


def _run(plan: RunPlan, rank: RankContext) -> Any:
    module, _, name = plan.task.entry.partition(":")
    return getattr(importlib.import_module(module), name)(plan, rank)
