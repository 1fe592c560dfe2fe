"""What every tensor parallel rank holds a slice of: heads, query groups, MLP and vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from primus_backend_megatron.host.legality.case import Case
from primus_core.outcome import Finding
from primus_core.planning.nearest import nearest_divisors, nearest_multiples, nearest_sizes

_TENSOR = "tensor_model_parallel_size"


@frozen
class _Part:
    """A part of the model that is divided among the tensor parallel ranks."""

    count: int
    name: str
    keys: tuple[str, ...]
    shared: bool = False
    """Several ranks may hold the same one (a query group)."""

    def fits(self, ranks: int) -> bool:
        return self.count % ranks == 0 or (self.shared and ranks % self.count == 0)


def check_tensor(case: Case) -> Iterator[Finding]:
    """Divisible among the ranks, and the heads among themselves."""
    yield from _slices(case)
    yield from _attention(case)
    if case.shape.vocabulary < case.size("vocab_size"):
        yield case.error(
            "vocabulary",
            f"{case.size('vocab_size')} tokens do not fit into {case.shape.vocabulary} rows of the embedding",
            ("vocab_size", "padded_vocab_size"),
            f"set padded_vocab_size to {case.size('vocab_size')} or more, or leave it out",
        )
    if case.on("tp_comm_overlap") and not case.on("sequence_parallel"):
        yield case.error(
            "overlap",
            "tp_comm_overlap works with sequence parallelism only",
            ("tp_comm_overlap", "sequence_parallel"),
            "set sequence_parallel: true, or tp_comm_overlap: false",
        )


def _slices(case: Case) -> Iterator[Finding]:
    """One finding for all parts, so that its remedy suits every one of them."""
    ranks, parts = case.size(_TENSOR), _parts(case)
    wrong = [part for part in parts if not part.fits(ranks)]
    if wrong:
        sizes = nearest_sizes(ranks, case.shape.heads, lambda size: all(part.fits(size) for part in parts))
        yield case.error(
            "tensor-parallel",
            f"{', '.join(f'{part.count} {part.name}' for part in wrong)} "
            f"cannot be divided among {ranks} tensor parallel ranks",
            (_TENSOR, *(key for part in wrong for key in part.keys)),
            f"set {_TENSOR} to {sizes}",
        )


def _parts(case: Case) -> list[_Part]:
    """The vocabulary is not among them where Megatron pads it to whatever the ranks need."""
    shape = case.shape
    mlp = "ffn_hidden_size" if case.values["ffn_hidden_size"] is not None else "hidden_size"
    parts = [
        _Part(shape.heads, "attention heads", ("num_attention_heads",)),
        _Part(shape.ffn_hidden, "MLP features", (mlp,)),
    ]
    if case.on("group_query_attention"):
        parts.append(_Part(shape.query_groups, "query groups", ("num_query_groups",), shared=True))
    if case.on("multi_latent_attention") and case.values["transformer_impl"] == "local":
        parts += _compressed(case)
    shared = case.size("moe_shared_expert_intermediate_size", 0)
    if shape.experts and shared:
        parts.append(_Part(shared, "features of the shared experts", ("moe_shared_expert_intermediate_size",)))
    if "padded_vocab_size" not in case.chosen or not case.on("pad_vocab_size"):
        parts.append(_Part(shape.vocabulary, "rows of the embedding", ("padded_vocab_size", "pad_vocab_size")))
    return parts


def _compressed(case: Case) -> Iterator[_Part]:
    """What latent attention compresses to, which Megatron's own layers divide and Transformer Engine's do not."""
    keys = ("kv_lora_rank", "qk_pos_emb_head_dim")
    yield _Part(sum(case.size(key) for key in keys), "compressed features of keys and values", keys)
    if case.values["q_lora_rank"] is not None:
        yield _Part(case.size("q_lora_rank"), "compressed features of queries", ("q_lora_rank",))


def _attention(case: Case) -> Iterator[Finding]:
    heads, hidden, groups = case.shape.heads, case.shape.hidden, case.shape.query_groups
    if hidden % heads and case.values["kv_channels"] is None:
        yield case.error(
            "heads",
            f"hidden_size {hidden} is not a multiple of the {heads} attention heads",
            ("hidden_size", "num_attention_heads"),
            f"set hidden_size to {nearest_multiples(hidden, heads)}, or the size of a head with kv_channels",
        )
    if heads % groups:
        yield case.error(
            "query-groups",
            f"{heads} attention heads cannot be divided into {groups} query groups",
            ("num_attention_heads", "num_query_groups"),
            f"set num_query_groups to {nearest_divisors(heads, groups)}",
        )
    if case.on("multi_latent_attention") and case.on("group_query_attention"):
        yield case.error(
            "attention",
            "multi-latent attention has no query groups",
            ("multi_latent_attention", "group_query_attention"),
            "set group_query_attention: false",
        )
