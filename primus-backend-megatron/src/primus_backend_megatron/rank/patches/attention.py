"""Core attention on a CPU: torch's fused one, where Megatron has only Transformer Engine's."""

from __future__ import annotations

import functools
from typing import Any

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.tensor_parallel.mappings import gather_from_sequence_parallel_region
from megatron.core.transformer.enums import AttnMaskType
from megatron.core.transformer.module import MegatronModule
from torch.nn.functional import scaled_dot_product_attention

_CAUSAL = (AttnMaskType.causal, AttnMaskType.padding_causal)


class SdpaAttention(MegatronModule):  # type: ignore[misc]  # Megatron has no types
    """Scaled dot-product attention over ``[sequence, batch, heads, size]`` tensors.

    Takes fewer key and value heads than query heads, values of another head size than the keys (multi-latent
    attention), and sequences that are divided over context-parallel ranks: each rank then gathers all keys and values.
    A mask that is given wins over the causal one, which it contains, as in Megatron's own implementation.
    """

    def __init__(
        self,
        config: Any,
        layer_number: int,
        attn_mask_type: AttnMaskType,
        attention_type: str,
        attention_dropout: float | None = None,
        softmax_scale: float | None = None,
        k_channels: int | None = None,
        v_channels: int | None = None,
        cp_comm_type: str | None = None,
        pg_collection: Any = None,
    ) -> None:
        super().__init__(config=config)
        self.attn_mask_type = attn_mask_type
        self.scale = softmax_scale if softmax_scale is not None else (k_channels or config.kv_channels) ** -0.5
        self.dropout = config.attention_dropout if attention_dropout is None else attention_dropout
        self.cp_group = getattr(pg_collection, "cp", None) or parallel_state.get_context_parallel_group()
        _check(config, layer_number)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        attn_mask_type: AttnMaskType | None = None,
        attention_bias: torch.Tensor | None = None,
        packed_seq_params: object = None,
    ) -> torch.Tensor:
        """Returns ``[sequence, batch, heads * value size]``.

        Raises:
            NotImplementedError: packed sequences or an attention bias.
        """
        if packed_seq_params is not None or attention_bias is not None:
            raise NotImplementedError("packed sequences and attention biases need Transformer Engine")
        causal = (attn_mask_type or self.attn_mask_type) in _CAUSAL
        allowed = _allowed(attention_mask, attn_mask_type or self.attn_mask_type)
        if self.cp_group.size() > 1:
            order = _zigzag(query.size(0), self.cp_group.size())
            allowed = _allowed_here(allowed, order, self.cp_group.rank()) if causal or allowed is not None else None
            key, value = self._gathered(key), self._gathered(value)
        context = self._attend(query, key, value, allowed, causal and allowed is None)
        return context.permute(2, 0, 1, 3).reshape(query.size(0), query.size(1), -1)

    def _gathered(self, tensor: torch.Tensor) -> torch.Tensor:
        """All context-parallel ranks' part of the sequence, in the order of the ranks; gradients are summed back."""
        return gather_from_sequence_parallel_region(tensor.contiguous(), True, self.cp_group)

    def _attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, allowed: torch.Tensor | None, causal: bool
    ) -> torch.Tensor:
        dropout = self.dropout if self.training else 0.0
        q, k, v = (tensor.permute(1, 2, 0, 3) for tensor in (query, key, value))
        attend = functools.partial(
            scaled_dot_product_attention,
            q,
            k,
            v,
            attn_mask=allowed,
            dropout_p=dropout,
            is_causal=causal,
            scale=self.scale,
            enable_gqa=q.size(1) != k.size(1),
        )
        if not dropout or self.config.sequence_parallel:
            return attend()
        with tensor_parallel.get_cuda_rng_tracker().fork():
            return attend()


def _check(config: Any, layer_number: int) -> None:
    """Refuse what this implementation would silently leave out."""
    from megatron.core.transformer.utils import is_layer_window_attention

    if is_layer_window_attention(config.window_size, config.window_attn_skip_freq, layer_number):
        raise NotImplementedError("window_size: attention over a window needs Transformer Engine")
    if config.softmax_type != "vanilla":
        raise NotImplementedError(f"softmax_type {config.softmax_type} needs Transformer Engine")


def _allowed(mask: torch.Tensor | None, kind: AttnMaskType) -> torch.Tensor | None:
    """Megatron's masks are True where nothing may be seen; torch's are True where it may."""
    return None if mask is None or kind == AttnMaskType.no_mask else ~mask


def _zigzag(length: int, ranks: int) -> list[torch.Tensor]:
    """Positions that each rank holds: rank r has chunk r from the front and chunk r from the back."""
    chunk = length // 2
    steps = torch.arange(chunk)
    return [torch.cat([steps + r * chunk, steps + (2 * ranks - 1 - r) * chunk]) for r in range(ranks)]


def _allowed_here(given: torch.Tensor | None, order: list[torch.Tensor], rank: int) -> torch.Tensor:
    """Which of all gathered positions the positions of this rank may see."""
    everywhere = torch.cat(order)
    if given is not None:
        return given[..., everywhere]
    return order[rank][:, None] >= everywhere[None, :]
