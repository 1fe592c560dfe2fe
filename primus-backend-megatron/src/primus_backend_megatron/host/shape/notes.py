"""What a reader of the figures must know of this plan."""

from __future__ import annotations

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape.layers import predicts_with_loss
from primus_backend_megatron.host.shape.operators_work import is_fused
from primus_backend_megatron.host.shape.unmodelled import unmodelled

_BALANCED = "Every expert gets as many tokens as every other, but for what --moe-load-factor says."
_PREDICTION = (
    "What layers of multi-token prediction on a stage without the loss keep is not counted; their weights are."
)
_DROPPED = "On a CPU, attention with dropout keeps whole matrices of weights, which are not counted."
_FUSED = "Gradients of weights are counted as if none was added to the sum in one kernel with its product."
_SHARDED = "Weights are counted whole on each rank; use_megatron_fsdp may hold less."
_ROOT = "FSDP2 gathers the output layer of transformer_impl: local for longer than is counted: too low."
_TOGETHER = "Layers of multi-token prediction are counted as if FSDP2 gathered each in one piece: too high."
_SENT = "Fused attention over context parallel ranks is counted as if keys and values were gathered."
_TURNED = "Positions are counted as rotated in one kernel: too low."


def notes_of(case: Case) -> tuple[str, ...]:
    """Assumptions, and what the figures leave out, a sentence each."""
    fused = is_fused(case)
    told = {
        _BALANCED: case.shape.experts > 0,
        _PREDICTION: case.on("mtp_num_layers") and not predicts_with_loss(case),
        _DROPPED: not fused and case.on("attention_dropout"),
        _FUSED: fused and case.on("gradient_accumulation_fusion"),
        _SHARDED: case.on("use_megatron_fsdp"),
        _ROOT: case.on("use_torch_fsdp2") and not fused,
        _TOGETHER: case.on("use_torch_fsdp2") and case.on("mtp_num_layers"),
        _SENT: fused and case.size("context_parallel_size") > 1,
        _TURNED: fused and not case.on("apply_rope_fusion") and case.values["position_embedding_type"] == "rope",
    }
    return (*(note for note, true in told.items() if true), *unmodelled(case))
