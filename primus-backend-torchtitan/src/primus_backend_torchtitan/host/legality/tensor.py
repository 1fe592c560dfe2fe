"""What every tensor parallel rank holds a slice of. Features and vocabulary may be divided unevenly."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.host.case import TENSOR, Case
from primus_core.outcome import Finding
from primus_core.planning.nearest import nearest_divisors, nearest_multiples, nearest_sizes

_HIDDEN, _HEADS, _GROUPS = "model.hidden_size", "model.num_attention_heads", "model.num_query_groups"
_VOCABULARY, _ROWS = "model.vocab_size", "model.padded_vocab_size"


def check_tensor(case: Case) -> Iterator[Finding]:
    """Heads among themselves and among the ranks, and a row of the embedding for every token."""
    heads, groups, hidden = case.shape.heads, case.shape.query_groups, case.shape.hidden
    sized = case.values["model.kv_channels"] is not None or case.values["model.multi_latent_attention"]
    if hidden % heads and not sized:
        yield case.error(
            "heads",
            f"{hidden} features cannot be divided among {heads} attention heads",
            (_HIDDEN, _HEADS),
            f"set hidden_size to {nearest_multiples(hidden, heads)}, or the size of a head with kv_channels",
        )
    if heads % groups:
        yield case.error(
            "query-groups",
            f"{heads} attention heads cannot be divided into {groups} query groups",
            (_HEADS, _GROUPS),
            f"set {case.name(_GROUPS)} to {nearest_divisors(heads, groups)}",
        )
    yield from _slices(case)
    if case.size(_VOCABULARY) > case.shape.vocabulary:
        yield case.error(
            "vocabulary",
            f"{case.size(_VOCABULARY)} tokens do not fit into {case.shape.vocabulary} rows of the embedding",
            (_VOCABULARY, _ROWS),
            f"set {case.name(_ROWS)} to {case.size(_VOCABULARY)} or more, or leave it out",
        )


def _slices(case: Case) -> Iterator[Finding]:
    """Heads of queries, and of keys and values: TorchTitan gives each rank whole ones of both."""
    heads, groups, ranks = case.shape.heads, case.shape.query_groups, case.size(TENSOR)

    def fits(size: int) -> bool:
        return heads % size == 0 and groups % size == 0

    if not fits(ranks):
        parts = [f"{heads} attention heads"] * (heads % ranks > 0) + [f"{groups} query groups"] * (groups % ranks > 0)
        yield case.error(
            "tensor-parallel",
            f"{' and '.join(parts)} cannot be divided among {ranks} tensor parallel ranks",
            (TENSOR, _HEADS, _GROUPS),
            f"set {case.name(TENSOR)} to {nearest_sizes(ranks, heads, fits)}",
        )
