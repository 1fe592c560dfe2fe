"""Floating-point operations of Megatron's own training step, as PyTorch counts them while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest import mock

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from primus_core.contract import RankContext
from primus_core.plan import RunPlan
from tests.megatron.truth import live_step

STEPS = 2
"""That `live_step.measured` runs."""


def _attention(query: Any, key: Any, value: Any, *args: Any, out_shape: Any = None, **options: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def _attention_backward(
    gradient: Any, query: Any, key: Any, value: Any, *args: Any, out_shape: Any = None, **options: Any
) -> int:
    return int(sdpa_backward_flop_count(gradient, query, key, value))


def mapping() -> dict[Any, Any]:
    """Operators of a CPU that PyTorch has no formula for."""
    aten = torch.ops.aten
    return {
        aten._scaled_dot_product_flash_attention_for_cpu: _attention,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    }


def counted(native: Mapping[str, Any]) -> int:
    """Of one training step of one rank alone."""
    counter = FlopCounterMode(display=False, custom_mapping=mapping())
    original = live_step._steps

    def steps(*args: Any, **options: Any) -> Any:
        with counter:
            return original(*args, **options)

    with mock.patch.object(live_step, "_steps", steps):
        live_step.measured({"native": native, "world": 1, "rank": 0, "fused": False})
    return int(counter.get_total_flops()) // STEPS


def count(plan: RunPlan, rank: RankContext) -> int:
    """What a forked rank runs: of the native values that were given to it."""
    return counted(rank.prepared("native"))
