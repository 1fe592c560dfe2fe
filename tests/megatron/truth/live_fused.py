"""Stand-ins, for tensors without values, that keep for the backward pass what fused kernels keep."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest import mock

import torch
from megatron.core.tensor_parallel.layers import ColumnParallelLinear

from tests.megatron.truth.live_grouped import grouped


class FlashAttention(torch.autograd.Function):
    """Keeps queries, keys, values, its output and one number for each row of the attention matrix."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any) -> Any:
        batch, heads, length, _ = query.shape
        output = query.new_empty(length, batch, heads, value.shape[-1]).permute(1, 2, 0, 3)
        sums = query.new_empty((batch, heads, length), dtype=torch.float32)
        ctx.save_for_backward(query, key, value, output, sums)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return tuple(torch.empty_like(tensor) for tensor in ctx.saved_tensors[:3])


class Norm(torch.autograd.Function):
    """Keeps its input and one number for each token."""

    @staticmethod
    def forward(ctx: Any, source: Any, weight: Any) -> Any:
        scale = source.new_empty((*source.shape[:-1], 1), dtype=torch.float32)
        ctx.save_for_backward(source, weight, scale)
        return torch.empty_like(source)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        source, weight, _ = ctx.saved_tensors
        return torch.empty_like(source), torch.empty_like(weight)


class Elementwise(torch.autograd.Function):
    """Keeps what it reads alone."""

    @staticmethod
    def forward(ctx: Any, source: Any, width: int, weights: Any = None) -> Any:
        ctx.save_for_backward(source, weights)
        return source.new_empty((*source.shape[:-1], width))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        source, weights = ctx.saved_tensors
        return torch.empty_like(source), None, None if weights is None else torch.empty_like(weights)


class Rotation(torch.autograd.Function):
    """Keeps the angles, which all layers share."""

    @staticmethod
    def forward(ctx: Any, source: Any) -> Any:
        return torch.empty_like(source, memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return torch.empty_like(gradients[0])


def _attention(query: Any, key: Any, value: Any, **options: Any) -> Any:
    return FlashAttention.apply(query, key, value)


def _norm(self: Any, source: Any) -> Any:
    return Norm.apply(source, self.weight)


def _gated(source: Any, bias: Any, *options: Any) -> Any:
    return Elementwise.apply(source, source.shape[-1] // 2)


def _curved(source: Any, bias: Any) -> Any:
    return Elementwise.apply(source, source.shape[-1])


def _weighted(source: Any, bias: Any, weights: Any, *options: Any) -> Any:
    return Elementwise.apply(source, source.shape[-1] // 2, weights)


def _rotated(source: Any, *args: Any, **options: Any) -> Any:
    return Rotation.apply(source)


def _adam(params: Any, *, adam_w_mode: bool, **options: Any) -> Any:
    return (torch.optim.AdamW if adam_w_mode else torch.optim.Adam)(params, fused=True, **options)


def _scaled(size: int, overflow: Any, tensors: Any, factor: float) -> None:
    """Transformer Engine's kernel writes into the second tensors; Megatron's own first makes new ones, one by one."""
    for source, target in zip(*tensors, strict=True):
        target.copy_(source)


class Whole(torch.nn.Module):
    """A product with a weight that each tensor parallel rank has whole, as Transformer Engine's layers of latent
    attention have for the narrow tensors."""

    def __init__(self, inner: int, width: int, *, config: Any, **options: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(width, inner, dtype=config.params_dtype))
        self.weight.sequence_parallel = config.sequence_parallel

    def forward(self, source: Any) -> Any:
        return torch.nn.functional.linear(source, self.weight), None


@contextlib.contextmanager
def _narrow() -> Iterator[None]:
    from megatron.core.transformer import multi_latent_attention as latent

    original = latent.MLASelfAttention.__init__

    def make(self: Any, config: Any, submodules: Any, *args: Any, **options: Any) -> None:
        products = {"linear_q_down_proj": Whole, "linear_kv_down_proj": Whole}
        original(self, config, replace(submodules, **products), *args, **options)

    with (
        mock.patch.object(latent.MLASelfAttention, "__init__", make),
        mock.patch.object(latent, "TELinear", Whole),
    ):
        yield


class _Output(ColumnParallelLinear):  # type: ignore[misc]  # Megatron has no types
    """The output layer, which FSDP2 gathers by itself where the other layers are Transformer Engine's."""

    _fsdp_modules: ClassVar[list[type]] = []


_Output._fsdp_modules = [_Output]


class _NoFp8:
    """What Transformer Engine says of 8-bit numbers where none are used."""

    @staticmethod
    def is_fp8_enabled() -> bool:
        return False


class Softmax(torch.autograd.Function):
    """Keeps the weights that it makes; backward it works in the place of their gradient."""

    @staticmethod
    def forward(ctx: Any, scores: Any) -> Any:
        weights = torch.empty_like(scores)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


def _softmax(self: Any, scores: Any, mask: Any, offset: Any = None) -> Any:
    return Softmax.apply(scores)


def _dropped(source: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    return torch.native_dropout(source, p, training)[0] if p else source


def _sized(original: Any) -> Any:
    """With values of another size than keys, which Transformer Engine's takes."""

    def make(self: Any, *args: Any, k_channels: Any = None, v_channels: Any = None, **options: Any) -> None:
        original(self, *args, **options)
        if v_channels:
            self.hidden_size_per_partition = v_channels * self.num_attention_heads_per_partition

    return make


class _Buffers:
    """Transformer Engine's buffer of scores is gone when they are there: no bytes stand for it."""

    @staticmethod
    def get_tensor(shape: Any, dtype: Any, name: str, *options: Any) -> Any:
        return torch.empty(1, dtype=dtype).expand(shape)


@contextlib.contextmanager
def unfused() -> Iterator[None]:
    """Attention that is not one kernel, as Transformer Engine has it: Megatron's own, with a kernel for the softmax."""
    from megatron.core import parallel_state
    from megatron.core.fusions.fused_softmax import FusedScaleMaskSoftmax
    from megatron.core.models.backends import LocalSpecProvider
    from megatron.core.transformer import dot_product_attention as own

    state = mock.Mock(wraps=parallel_state, get_global_memory_buffer=_Buffers)
    with (
        mock.patch.object(LocalSpecProvider, "core_attention", return_value=own.DotProductAttention),
        mock.patch.object(own, "parallel_state", state),
        mock.patch.object(own.DotProductAttention, "__init__", _sized(own.DotProductAttention.__init__)),
        mock.patch.object(FusedScaleMaskSoftmax, "forward", _softmax),
        mock.patch.object(torch.nn.functional, "dropout", _dropped),
    ):
        yield


def _around(**options: Any) -> Any:
    return contextlib.nullcontext()


@contextlib.contextmanager
def _transformer_engine() -> Iterator[None]:
    """What recomputation asks Transformer Engine, which is not here."""
    from megatron.core.tensor_parallel import random

    known = {"FP8GlobalStateManager": _NoFp8, "fp8_autocast": _around, "activation_recompute_forward": _around}
    with mock.patch.multiple(random, create=True, **known):
        yield


@contextlib.contextmanager
def fused() -> Iterator[None]:
    """Attention, norms, gated activation, rotary positions and the optimizer in one kernel each; batches are copied to
    the device."""
    from megatron.core import optimizer, tensor_parallel
    from megatron.core.models.gpt import gpt_model
    from megatron.core.transformer import attention as layer
    from megatron.core.transformer import mlp, multi_latent_attention

    from primus_backend_megatron.rank import step
    from primus_backend_megatron.rank.patches import attention

    parallel = {**vars(tensor_parallel), "ColumnParallelLinear": _Output}
    with (
        _transformer_engine(),
        _narrow(),
        grouped(_weighted),
        mock.patch.object(attention, "scaled_dot_product_attention", _attention),
        mock.patch.object(torch.nn.RMSNorm, "forward", _norm),
        mock.patch.object(mlp, "bias_swiglu_impl", _gated),
        mock.patch.object(mlp, "bias_gelu_impl", _curved),
        mock.patch.object(torch.nn.functional, "dropout", _dropped),
        mock.patch.object(layer, "apply_rotary_pos_emb", _rotated),
        mock.patch.object(multi_latent_attention, "apply_rotary_pos_emb", _rotated),
        mock.patch.object(mlp, "weighted_bias_swiglu_impl", _weighted),
        mock.patch.object(step, "_on_device", torch.clone),
        mock.patch.object(optimizer, "USING_PYTORCH_OPTIMIZER", False),
        mock.patch.object(optimizer, "Adam", _adam),
        mock.patch.object(optimizer.optimizer, "multi_tensor_scale_impl", _scaled),
        mock.patch.object(gpt_model, "tensor_parallel", SimpleNamespace(**parallel)),
    ):
        yield
