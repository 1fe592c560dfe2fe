"""Weights that are sharded over data parallel ranks, by PyTorch's FSDP2 or by Megatron's own FSDP."""

from __future__ import annotations

import json
from collections.abc import Iterator

from primus_backend_megatron.host.legality.case import Case
from primus_core.experiment import Value
from primus_core.outcome import Finding

_FSDP2, _OWN, _FORMAT, _TENSOR = "use_torch_fsdp2", "use_megatron_fsdp", "ckpt_format", "tensor_model_parallel_size"
_OPTIMIZERS = ("optimizer", ("adam", "sgd"), "optimizers other than adam and sgd")
_NEEDS: dict[str, tuple[tuple[str, tuple[Value, ...], str], ...]] = {
    _FSDP2: (
        (_OWN, (False,), "Megatron's own FSDP"),
        ("pipeline_model_parallel_size", (1,), "pipeline parallelism"),
        ("expert_model_parallel_size", (1,), "expert parallelism"),
        ("use_distributed_optimizer", (False,), "Megatron's distributed optimizer"),
        ("gradient_accumulation_fusion", (False,), "fused accumulation of gradients"),
        (_FORMAT, ("torch_dist", "torch_dcp"), "checkpoints of other formats than torch_dist and torch_dcp"),
        ("untie_embeddings_and_output_weights", (True,), "an output layer that has the embedding's weights"),
        ("fp16", (False,), "fp16"),
        _OPTIMIZERS,
    ),
    _OWN: (
        (_FORMAT, ("fsdp_dtensor",), "checkpoints of other formats than fsdp_dtensor"),
        ("moe_single_grouped_weight", (False,), "weights of experts in one tensor"),
        ("moe_single_grouped_bias", (False,), "biases of experts in one tensor"),
        _OPTIMIZERS,
    ),
}
"""Of each way to shard: parameters, the values that Megatron accepts, and what all others are."""
_SHARDED = {"torch_dcp": _FSDP2, "fsdp_dtensor": _OWN}


def check_fsdp(case: Case) -> Iterator[Finding]:
    """What Megatron's `validate_args` asserts of either way to shard weights, and of none."""
    switch = next((name for name in _NEEDS if case.on(name)), None)
    if switch is None:
        yield from _formats(case)
        return
    for name, accepted, others in _NEEDS[switch]:
        if case.values[name] not in accepted:
            yield case.error(
                "fsdp",
                f"{switch} does not work with {others}",
                (switch, name),
                f"set {name}: {_spelt(accepted[0])}, or {switch}: false",
            )
    if switch == _FSDP2 and case.values[_FORMAT] == "torch_dcp" and case.size(_TENSOR) > 1:
        yield case.error(
            "fsdp",
            "checkpoints of the format torch_dcp do not work with tensor parallelism",
            (_FORMAT, _TENSOR),
            f"set {_FORMAT}: torch_dist, or {_TENSOR}: 1",
        )


def _formats(case: Case) -> Iterator[Finding]:
    """Of sharded weights alone."""
    written = str(case.values[_FORMAT])
    if written in _SHARDED:
        yield case.error(
            "fsdp",
            f"checkpoints of the format {written} are of sharded weights",
            (_FORMAT, _SHARDED[written]),
            f"set {_FORMAT}: torch_dist, or {_SHARDED[written]}: true",
        )


def _spelt(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)
