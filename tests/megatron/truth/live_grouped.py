"""Experts whose products are one kernel, as Transformer Engine's grouped products are on a GPU, for tensors without
values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

import torch


class Products(torch.autograd.Function):
    """Keeps what it reads; the gradients of all weights are made at once, after that of what it reads."""

    @staticmethod
    def forward(ctx: Any, source: Any, *weights: Any) -> Any:
        ctx.save_for_backward(source, *weights)
        return source.new_empty((source.shape[0], weights[0].shape[0]))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return tuple(torch.empty_like(tensor) for tensor in ctx.saved_tensors)


class Grouped(torch.nn.Module):
    """The weights of all experts of a rank."""

    def __init__(self, count: int, inner: int, width: int, *, config: Any, **options: Any) -> None:
        super().__init__()
        for index in range(count):
            weight = torch.nn.Parameter(torch.empty(width, inner, dtype=config.params_dtype))
            weight.allreduce = config.expert_model_parallel_size == 1
            self.register_parameter(f"weight{index}", weight)

    def forward(self, source: Any, sizes: Any) -> Any:
        return Products.apply(source, *self.parameters()), None


@contextlib.contextmanager
def grouped(weighted: Any) -> Iterator[None]:
    """Experts of a rank are computed together where ``moe_grouped_gemm`` is set.

    Args:
        weighted: stands for the gated activation times the weight of each token.
    """
    from megatron.core.models.backends import LocalSpecProvider
    from megatron.core.transformer.moe import experts

    alone = LocalSpecProvider.grouped_mlp_modules

    def built(self: Any, together: bool) -> Any:
        parts = experts.GroupedMLPSubmodules(linear_fc1=Grouped, linear_fc2=Grouped)
        return partial(experts.TEGroupedMLP, submodules=parts) if together else alone(self, together)

    with (
        mock.patch.object(LocalSpecProvider, "grouped_mlp_modules", built),
        mock.patch.object(experts, "weighted_bias_swiglu_impl", weighted),
    ):
        yield
