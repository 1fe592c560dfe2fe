"""Attention on a CPU: `flex_attention` there has no backward, and torch's SDPA computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_DENSE = "primus_dense_mask"
"""Where a block mask keeps the dense one that was made of it: all layers of a step share it."""


def create_block_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory: the mask is made by torch's own function, not compiled."""
    from torch.nn.attention import flex_attention

    made: Callable[..., Any] = flex_attention.create_block_mask
    return made


def masked_attention(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory: `flex_attention` by SDPA under a dense mask.

    What SDPA cannot do is left to `flex_attention`, which says so itself: changed scores and their log-sum-exp.
    """
    from torch.nn import functional
    from torch.nn.attention import flex_attention as flex

    def attention(
        query: Any,
        key: Any,
        value: Any,
        *,
        score_mod: Any = None,
        block_mask: Any = None,
        scale: float | None = None,
        enable_gqa: bool = False,
        return_aux: Any = None,
        kernel_options: Any = None,
    ) -> Any:
        if score_mod is not None or (return_aux is not None and return_aux.lse):
            shared = {"scale": scale, "enable_gqa": enable_gqa, "return_aux": return_aux}
            return flex.flex_attention(query, key, value, score_mod=score_mod, block_mask=block_mask, **shared)
        mask = None if block_mask is None else _dense(block_mask, query, key)
        out = functional.scaled_dot_product_attention(
            query, key, value.to(query.dtype), attn_mask=mask, scale=scale, enable_gqa=enable_gqa
        )
        return out, flex.AuxOutput()

    return attention


def _dense(block_mask: Any, query: Any, key: Any) -> Any:
    """A block mask as truth values: batch (or 1), heads (or 1), query, key."""
    from torch.nn.attention.flex_attention import create_mask

    known = getattr(block_mask, _DENSE, None)
    if known is None:
        batch, heads = block_mask.shape[:2]
        lengths = (query.shape[2], key.shape[2])
        known = create_mask(block_mask.mask_mod, batch, heads, *lengths, device=str(query.device))
        setattr(block_mask, _DENSE, known)
    return known
