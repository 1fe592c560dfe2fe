"""The operations that the back end tells are those that Megatron's own training step runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from primus_backend_megatron.host.shape import shape_of_plan
from primus_core.experiment import Value
from primus_core.projection.flops import flops_of
from tests.megatron.experiments import plan_of
from tests.megatron.ranks import CPU, LLAMA, Ranks

CASE: Mapping[str, Value] = {
    **CPU,
    **LLAMA,
    "bf16": True,
    "num_experts": 4,
    "moe_router_topk": 2,
    "moe_ffn_hidden_size": 96,
    "moe_token_dispatcher_type": "alltoall",
    "moe_aux_loss_coeff": 0.0,
    "recompute_granularity": "full",
    "recompute_method": "uniform",
    "recompute_num_layers": 1,
}


@pytest.mark.slow
def test_products_are_those_that_pytorch_counts(ranks: Ranks, tmp_path: Path) -> None:
    """Forward, again and backward, of experts too, the same number; of whole attention, as PyTorch counts it."""
    entry = "tests.megatron.truth.products:count"
    found: Any = ranks.run(tmp_path, world=1, entry=entry, prepared={"native": dict(CASE)}).check().result()
    shape = shape_of_plan(plan_of(CASE))
    assert shape
    assert found == flops_of(shape, "whole").hardware_per_iteration
