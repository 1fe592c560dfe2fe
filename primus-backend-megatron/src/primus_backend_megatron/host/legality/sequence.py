"""The sequence over context and tensor parallel ranks, and its positions."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_megatron.host.legality.case import Case
from primus_core.outcome import Finding
from primus_core.planning.nearest import nearest_multiples

_CONTEXT, _TENSOR = "context_parallel_size", "tensor_model_parallel_size"
_NEXT, _POSITIONS = "mtp_num_layers", "position_embedding_type"


def check_sequence(case: Case) -> Iterator[Finding]:
    """Context parallel ranks hold two chunks each, which evens out causal work; sequence parallel ranks share those."""
    sequence, context = case.shape.sequence, case.size(_CONTEXT)
    if context > 1 and sequence % (2 * context):
        yield case.error(
            "sequence",
            f"{sequence} tokens cannot be divided into 2 chunks for each of {context} context parallel ranks",
            ("seq_length", _CONTEXT),
            f"set seq_length to {nearest_multiples(sequence, 2 * context)}",
        )
    elif case.on("sequence_parallel") and sequence // context % case.size(_TENSOR):
        yield case.error(
            "sequence",
            f"sequence_parallel cannot divide {sequence // context} tokens among {case.size(_TENSOR)} ranks",
            ("seq_length", _CONTEXT, "sequence_parallel", _TENSOR),
            f"set seq_length to {nearest_multiples(sequence, context * case.size(_TENSOR))}",
        )
    yield from _positions(case, sequence)


def _positions(case: Case, sequence: int) -> Iterator[Finding]:
    if sequence > case.size("max_position_embeddings"):
        yield case.error(
            "positions",
            f"seq_length {sequence} is more than the model's {case.size('max_position_embeddings')} positions",
            ("seq_length", "max_position_embeddings"),
            f"set seq_length to {case.size('max_position_embeddings')} or less, or raise max_position_embeddings",
        )
    kind = case.values[_POSITIONS]
    if case.on(_NEXT) and kind not in ("rope", "none"):
        yield case.error(
            "positions",
            f"Megatron predicts more than one token with rotary positions or none only, not with {kind}",
            (_NEXT, _POSITIONS),
            f"set {_POSITIONS}: rope, or leave {_NEXT} out",
        )
