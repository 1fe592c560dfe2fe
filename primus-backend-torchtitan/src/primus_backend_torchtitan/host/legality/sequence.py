"""The sequence over context and tensor parallel ranks, and its positions."""

from __future__ import annotations

import math
from collections.abc import Iterator

from primus_backend_torchtitan.host.case import CONTEXT, TENSOR, Case
from primus_core.outcome import Finding
from primus_core.planning.nearest import nearest_divisors, nearest_multiples

_LENGTH, _LONGEST, _ATTENTION = "training.seq_len", "model.max_position_embeddings", "model.attention"
_KIND, _PIECES = "loss.kind", "loss.num_chunks"
_SEQUENCE_PARALLEL = "parallelism.enable_sequence_parallel"
_BALANCER = "parallelism.context_parallel_load_balancer"
_BALANCERS = ("headtail", "ptrr", None)
_BLOCK = 128
"""Tokens of a block of flex attention's mask, which context parallelism cannot divide."""


def check_sequence(case: Case) -> Iterator[Finding]:
    """A length that the model has positions for, and that all who share it can divide."""
    length, longest = case.shape.sequence, case.size(_LONGEST)
    if length > longest:
        yield case.error(
            "positions",
            f"sequences of {length} tokens are longer than the model's {longest} positions",
            (_LENGTH, _LONGEST),
            f"set {case.name(_LENGTH)} to {longest} or less, or raise {case.name(_LONGEST)}",
        )
    parts = _parts(case)
    if length % parts:
        yield case.error(
            "sequence",
            f"{length} tokens of a sequence are no multiple of {parts}, as {_why(case)}",
            (_LENGTH, CONTEXT, TENSOR, _SEQUENCE_PARALLEL),
            f"set {case.name(_LENGTH)} to {nearest_multiples(length, parts)}",
        )
    if case.size(CONTEXT) > 1:
        yield from _context(case)
    yield from _pieces(case)


def _parts(case: Case) -> int:
    """What the length must be a multiple of."""
    context = case.size(CONTEXT)
    tensor = case.size(TENSOR) if case.values[_SEQUENCE_PARALLEL] else 1
    if context == 1:
        return tensor
    blocks = context * _BLOCK if case.values[_ATTENTION] != "varlen" else 1
    return math.lcm(tensor * 2 * context, blocks)


def _why(case: Case) -> str:
    context, tensor = case.size(CONTEXT), case.size(TENSOR)
    reasons = [f"{context} context parallel ranks need (blocks of {_BLOCK} tokens, two chunks each)"] * (context > 1)
    if case.values[_SEQUENCE_PARALLEL] and tensor > 1:
        reasons.append(f"sequence parallelism of {tensor} ranks needs")
    return " and ".join(reasons)


def _pieces(case: Case) -> Iterator[Finding]:
    """The loss takes a rank's sequence in equal pieces; where nobody sets their number, it is one that fits."""
    length, pieces = case.shape.sequence // case.size(CONTEXT), case.size(_PIECES)
    if case.values[_KIND] == "chunked" and _PIECES in case.paths and length % pieces:
        yield case.error(
            "loss",
            f"{length} tokens cannot be cut into {pieces} equal pieces",
            (_PIECES, _LENGTH, CONTEXT),
            f"set {_PIECES} to {nearest_divisors(length, pieces)}, or leave it out",
        )


def _context(case: Case) -> Iterator[Finding]:
    """TorchTitan gathers keys and values in `FlexAttention` only."""
    if case.values[_ATTENTION] == "varlen":
        yield case.error(
            "attention",
            "TorchTitan has no context parallelism for attention over sequences of varied length",
            (_ATTENTION, CONTEXT),
            f"set {case.name(_ATTENTION)}: flex, or {case.name(CONTEXT)}: 1",
        )
    if case.values[_BALANCER] not in _BALANCERS:
        yield case.error(
            "context",
            f"TorchTitan knows no way {case.values[_BALANCER]} to balance context parallel ranks",
            (_BALANCER, CONTEXT),
            "write headtail, ptrr or null",
        )
