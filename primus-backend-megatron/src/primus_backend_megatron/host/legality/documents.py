"""Documents that are to be kept apart."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_megatron.host.legality.case import Case
from primus_core.outcome import Finding

_MASK, _LAYERS, _FUSED = "reset_attention_mask", "transformer_impl", "masked_softmax_fusion"


def check_documents(case: Case) -> Iterator[Finding]:
    """Transformer Engine's causal attention and Megatron's fused softmax read no mask, and say nothing of it."""
    if not case.on(_MASK):
        return
    by_engine = case.values[_LAYERS] == "transformer_engine"
    if not by_engine and not case.on(_FUSED):
        return
    leaf = case.module.params.get("semantics")
    yield case.finding(
        "warning" if leaf is not None and leaf.value == "native" else "error",
        "documents",
        f"{_MASK} does nothing with {'Transformer Engine' if by_engine else 'the fused softmax'}: "
        "tokens would see other documents",
        (_MASK, _LAYERS, _FUSED),
        f"set `{_LAYERS}: local` and `{_FUSED}: false`, which is slower, or remove {_MASK}",
    )
