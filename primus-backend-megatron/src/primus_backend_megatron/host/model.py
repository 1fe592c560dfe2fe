"""The model's parameters that Megatron would fill in or ignore, and the shape that follows from all of them."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_megatron.host.data import BYTE_LEVEL
from primus_backend_megatron.host.draft import Draft
from primus_core.experiment import Value
from primus_core.plan import Layout, ModelSizes
from primus_core.planning.datavocabulary import BYTE_VOCABULARY

_FAST_EXPERTS: Mapping[str, Value] = {
    "moe_token_dispatcher_type": "alltoall",
    "moe_grouped_gemm": True,
    "moe_permute_fusion": True,
}


def adjust_model(draft: Draft) -> None:
    """Vocabulary, positions, query groups and optimizer as they were meant."""
    _adjust_vocabulary(draft)
    _adjust_query_groups(draft)
    if draft["overlap_param_gather"] and not draft["use_megatron_fsdp"]:
        draft.adjust_unset("use_distributed_optimizer", True, "overlap_param_gather works with it only")
    if draft["sequence_parallel"] and draft["tensor_model_parallel_size"] == 1:
        draft.adjust("sequence_parallel", False, "one tensor parallel rank has the whole sequence")
    if draft["use_rotary_position_embeddings"]:
        draft.adjust("position_embedding_type", "rope", "use_rotary_position_embeddings asks for it")
    if draft["max_position_embeddings"] is None:
        draft.adjust("max_position_embeddings", draft["seq_length"], "nobody set it; the sequence length is the least")
    if draft["cross_entropy_loss_fusion"] and draft["cross_entropy_fusion_impl"] == "te":
        draft.adjust("cross_entropy_fusion_impl", "native", "megatron-core refuses Transformer Engine's fused loss")


def adjust_experts(draft: Draft) -> None:
    """Experts on GPUs all at once; Megatron's own defaults compute the same one by one, on copies of all tokens."""
    if not draft["num_experts"] or draft.target.accelerator == "cpu":
        return
    for name, used in _FAST_EXPERTS.items():
        draft.adjust_unset(name, used, "with experts; Megatron's default computes the same, slower")


def _adjust_vocabulary(draft: Draft) -> None:
    if draft["vocab_size"] is None and draft["padded_vocab_size"] is None:
        draft.adjust("vocab_size", BYTE_VOCABULARY, f"the vocabulary of {BYTE_LEVEL}")
    elif draft["vocab_size"] is None:
        draft.adjust("vocab_size", draft["padded_vocab_size"], "padded_vocab_size is set and vocab_size is not")
    if draft["load_hf"]:
        why = "rows of padding would take part in the softmax, which the weights in load_hf were not trained with"
        draft.adjust_unset("make_vocab_size_divisible_by", 1, why)
    if draft["padded_vocab_size"] is None:
        multiple = draft.integer("make_vocab_size_divisible_by") * draft.integer("tensor_model_parallel_size")
        if not draft["pad_vocab_size"]:
            draft.adjust("padded_vocab_size", draft["vocab_size"], "vocab_size; pad_vocab_size is false")
        else:
            rows = -(-draft.integer("vocab_size") // multiple) * multiple
            why = f"vocab_size rounded up to a multiple of {multiple}, make_vocab_size_divisible_by x tensor parallel"
            draft.adjust("padded_vocab_size", rows, why)


def _adjust_query_groups(draft: Draft) -> None:
    """Megatron reads `num_query_groups` only where `group_query_attention` is true."""
    differs = draft.is_set("num_query_groups") and draft["num_query_groups"] != draft["num_attention_heads"]
    if not differs or draft["group_query_attention"] or draft["multi_latent_attention"]:
        return
    if draft.is_set("group_query_attention"):
        draft.drop("num_query_groups", "group_query_attention is false: every head has keys and values of its own")
    elif draft["num_query_groups"] is not None:
        draft.adjust("group_query_attention", True, "num_query_groups asks for it")


def layout_of(draft: Draft) -> Layout:
    """How ranks and samples are divided."""
    batch = draft["global_batch_size"]
    return Layout(
        tensor=draft.integer("tensor_model_parallel_size"),
        pipeline=draft.integer("pipeline_model_parallel_size"),
        context=draft.integer("context_parallel_size"),
        expert=draft.integer("expert_model_parallel_size"),
        micro_batch_size=draft.integer("micro_batch_size"),
        global_batch_size=batch if isinstance(batch, int) else None,
        expert_tensor=_or(draft["expert_tensor_parallel_size"], draft.integer("tensor_model_parallel_size")),
    )


def shape_of(draft: Draft) -> ModelSizes:
    """The model with Megatron's own defaults filled in (`validate_args` of megatron-core 0.19)."""
    heads, ffn = draft.integer("num_attention_heads"), ffn_hidden_size(draft)
    experts = draft["num_experts"] or 0
    return ModelSizes(
        layers=draft.integer("num_layers"),
        hidden=draft.integer("hidden_size"),
        ffn_hidden=ffn,
        heads=heads,
        query_groups=draft.integer("num_query_groups") if draft["group_query_attention"] else heads,
        head_size=_or(draft["kv_channels"], draft.integer("hidden_size") // heads),
        sequence=draft.integer("seq_length"),
        vocabulary=draft.integer("padded_vocab_size"),
        gated_mlp=bool(draft["swiglu"] or draft["quick_geglu"]),
        tied_embeddings=not draft["untie_embeddings_and_output_weights"],
        experts=_or(experts, 0),
        experts_per_token=draft.integer("moe_router_topk") if experts else 0,
        moe_ffn_hidden=_or(draft["moe_ffn_hidden_size"], ffn) if experts else 0,
    )


def ffn_hidden_size(draft: Draft) -> int:
    """Megatron's own rule: 4 x hidden, or with a gate 8/3 x hidden rounded down to a multiple of 64."""
    hidden = draft.integer("hidden_size")
    return _or(draft["ffn_hidden_size"], int((4 * hidden * 2 / 3) / 64) * 64 if draft["swiglu"] else 4 * hidden)


def _or(value: object, default: int) -> int:
    return value if isinstance(value, int) else default
