"""What kernels of a GPU keep for the backward pass, for tensors without values.

Sources, all of torch 2.13: flex attention saves queries, keys, values, its output and a number in fp32 for each row
(``FlexAttentionAutogradOp`` of `torch/_higher_order_ops/flex_attention.py`); ``_fused_rms_norm`` saves its input and a
number in fp32 for each row (``derivatives.yaml``). Selective checkpointing saves what flex attention makes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.nn.attention.flex_attention import AuxOutput
from torchtitan.distributed import activation_checkpoint
from torchtitan.models.common.attention import FlexAttention


class Norm(torch.autograd.Function):
    """Keeps its input and one number for each row."""

    @staticmethod
    def forward(ctx: Any, source: Any, weight: Any) -> Any:
        scale = source.new_empty((*source.shape[:-1], 1), dtype=torch.float32)
        ctx.save_for_backward(source, weight, scale)
        return torch.empty_like(source, memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        source, weight, _ = ctx.saved_tensors
        return torch.empty_like(source, memory_format=torch.contiguous_format), torch.empty_like(weight)


def _norm(self: Any, source: Any) -> Any:
    return Norm.apply(source, self.weight)


@torch.library.custom_op("primus_truth::attention", mutates_args=())
def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """An output like the queries with the width of values, and a number for each row."""
    output = query.new_empty((query.shape[0], query.shape[2], query.shape[1], value.shape[3])).transpose(1, 2)
    return output, query.new_empty(query.shape[:3], dtype=torch.float32)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs, *output)


@torch.library.custom_op("primus_truth::attention_backward", mutates_args=())
def attention_backward(
    gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of all three."""
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _gradients(ctx: Any, gradient: Any, *others: Any) -> Any:
    return attention_backward(gradient, *ctx.saved_tensors[:3])


attention.register_fake(attention._init_fn)
attention_backward.register_fake(attention_backward._init_fn)
attention.register_autograd(_gradients, setup_context=_keep)


def _attention(query: Any, key: Any, value: Any, **options: Any) -> Any:
    return attention(query, key, value)[0], AuxOutput()


def _saving() -> set[Any]:
    return _save_ops() | {torch.ops.primus_truth.attention.default}


_save_ops = activation_checkpoint._get_default_save_ops


@contextlib.contextmanager
def fused() -> Iterator[None]:
    """Attention and norms in one kernel each; all else of TorchTitan runs operation by operation on a GPU too."""
    with (
        mock.patch.object(torch.nn.RMSNorm, "forward", _norm),
        mock.patch.object(FlexAttention, "_compiled_flex_attn", staticmethod(_attention)),
        mock.patch.object(activation_checkpoint, "_get_default_save_ops", _saving),
    ):
        yield
