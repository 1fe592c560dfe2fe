"""What a reader of the figures must know of this plan."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape.layers import predicts_with_loss
from primus_backend_megatron.host.shape.operators_unfused import has_fused_softmax
from primus_backend_megatron.host.shape.operators_work import Work, is_fused
from primus_backend_megatron.host.shape.optimizers import deals_matrices, is_plain
from primus_backend_megatron.host.shape.unmodelled import unmodelled

_BALANCED = "Every expert gets as many tokens as every other, but for what --moe-load-factor says."
_PREDICTION = (
    "Of layers of multi-token prediction on a stage without the loss only the weights are counted, and nothing of "
    "their logits: too low, on the stage of the loss too."
)
_DROPPED = "On a CPU, attention with dropout keeps whole matrices of weights, which are not counted: too low."
_SOFTMAX = (
    "Megatron's own attention masks, scales and takes the softmax of the scores in several kernels, whose copies of "
    "the scores are not counted: too low."
)
_FUSED = "Gradients of weights are counted as if none was added to the sum in one kernel with its product: too high."
_ADDED = "Bias, dropout and addition to the residual stream are counted as several kernels, not as one: too high."
_SHARDED = "Weights are counted whole on each rank; use_megatron_fsdp may hold less: too high."
_ROOT = "FSDP2 gathers the output layer of transformer_impl: local for longer than is counted: too low."
_TOGETHER = "Layers of multi-token prediction are counted as if FSDP2 gathered each in one piece: too high."
_SENT = (
    "Fused attention over context parallel ranks is counted as if keys and values were gathered and kept: too high "
    "where they are sent around."
)
_STEP = (
    "The copies of a matrix that this optimizer works on in its step are not counted: too low where that is the peak."
)
_DEALT = (
    "The distributed optimizer deals out whole matrices for this optimizer; counted are equal shares of each: too low "
    "on the rank that gets most, and for what fills up the others."
)
_TURNED = "Positions are counted as rotated in one kernel: too low."


def notes_of(case: Case) -> tuple[str, ...]:
    """Assumptions, and what the figures leave out, a sentence each."""
    fused = is_fused(case)
    told = {
        _BALANCED: case.shape.experts > 0,
        _PREDICTION: case.on("mtp_num_layers") and not predicts_with_loss(case),
        _DROPPED: not fused and case.on("attention_dropout"),
        _SOFTMAX: not fused and case.on_gpus and not has_fused_softmax(Work.of(case)),
        _FUSED: fused and case.on("gradient_accumulation_fusion"),
        _ADDED: case.on_gpus and case.on("bias_dropout_fusion") and _adds_more(case),
        _STEP: not is_plain(case) and case.values["optimizer"] != "lion",
        _DEALT: deals_matrices(case),
        _SHARDED: case.on("use_megatron_fsdp"),
        _ROOT: case.on("use_torch_fsdp2") and not fused,
        _TOGETHER: case.on("use_torch_fsdp2") and case.on("mtp_num_layers"),
        _SENT: fused and case.size("context_parallel_size") > 1,
        _TURNED: fused and not case.on("apply_rope_fusion") and case.values["position_embedding_type"] == "rope",
    }
    return (*_padding(case), *(note for note, true in told.items() if true), *unmodelled(case))


def _padding(case: Case) -> Iterator[str]:
    """Rows of the embedding and of the output layer that no word has."""
    words, rows = case.size("vocab_size", case.shape.vocabulary), case.shape.vocabulary
    if rows > words:
        tables = 1 if case.shape.tied_embeddings else 2
        more = (rows - words) * case.shape.hidden * tables
        yield (
            f"The vocabulary of {words:,} is padded to {rows:,} rows: {more:,} of the parameters, and as large a part "
            "of the logits, are of no word."
        )


def _adds_more(case: Case) -> bool:
    """Something beside what a part of a layer has made and the residual stream."""
    return case.on("add_bias_linear") or case.on("hidden_dropout")
