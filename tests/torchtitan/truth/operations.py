"""Floating-point operations of TorchTitan's own training step, as PyTorch counts them while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest import mock

import torch

from tests.torchtitan.truth import live_step
from tests.truth.products import backward_flops, counting, forward_flops


def counted(case: Mapping[str, Any]) -> int:
    """Of the second step of one rank, of a case as `tests.torchtitan.truth.live_step.measured` has it: in the first,
    stages of a pipeline run forward once more, to know the sizes of what they make."""
    stand_ins, optimize, so_far = torch.ops.primus_truth, live_step._optimize, [0]
    formulas = {stand_ins.attention: forward_flops, stand_ins.attention_backward: backward_flops}
    with counting(live_step, formulas) as counter, torch.compiler.set_stance("force_eager"):

        def seen(*args: Any) -> None:
            so_far.append(int(counter.get_total_flops()))
            optimize(*args)

        with mock.patch.object(live_step, "_optimize", seen):
            live_step.measured(case)
    return so_far[-1] - so_far[-2]
