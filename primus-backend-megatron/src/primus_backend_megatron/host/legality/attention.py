"""Implementations of attention."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_megatron.host.legality.case import Case
from primus_core.outcome import Finding

_LAYERS, _KERNEL, _CONTEXT = "transformer_impl", "attention_backend", "context_parallel_size"


def check_attention(case: Case) -> Iterator[Finding]:
    """On GPUs only fused kernels divide a sequence over ranks; on CPUs Primus brings an attention that does."""
    if case.values[_KERNEL] == "local" and case.values["spec"] != ["local"]:
        yield case.error(
            "attention",
            f"Megatron stops at {_KERNEL}: local; its own attention comes with its own layers",
            (_KERNEL, _LAYERS),
            f"set {_KERNEL}: auto, and {_LAYERS}: local for Megatron's own attention",
        )
    if case.size(_CONTEXT) == 1 or not case.on_gpus:
        return
    if case.values[_LAYERS] != "transformer_engine":
        yield case.error(
            "context",
            "Megatron's own attention has no context parallelism",
            (_LAYERS, _CONTEXT),
            f"set {_LAYERS}: transformer_engine, or {_CONTEXT}: 1",
        )
    elif case.values[_KERNEL] == "unfused":
        yield case.error(
            "context",
            "Transformer Engine's unfused attention has no context parallelism",
            (_KERNEL, _CONTEXT),
            f"set {_KERNEL}: auto, or {_CONTEXT}: 1",
        )
