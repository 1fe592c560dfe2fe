"""What a layer of multi-token prediction computes; what it keeps for the backward pass is not told."""

from __future__ import annotations

from collections.abc import Sequence

from primus_backend_megatron.host.shape.operators_work import Work
from primus_core.shape import Operator


def prediction(work: Work, layer: Sequence[Operator], head: Sequence[Operator]) -> list[Operator]:
    """Its projection of two hidden states to one, a transformer layer and the output layer again."""
    hidden = work.hidden
    project = Operator(
        name="eh_proj", component="prediction", flops=2 * work.tokens * work.context * 2 * hidden * hidden
    )
    return [project, *(_computed(each) for each in (*layer, *head) if each.flops)]


def _computed(operator: Operator) -> Operator:
    return Operator(
        name=operator.name,
        component="prediction",
        flops=operator.flops,
        backward_flops=operator.backward_flops,
        causal=operator.causal,
    )
