"""The model's parameters that follow from others, and the shape that follows from all of them."""

from __future__ import annotations

from primus_backend_torchtitan.architecture import DEFAULTS, ffn_hidden_size, size
from primus_backend_torchtitan.host.draft import Draft
from primus_backend_torchtitan.host.portable import RULES
from primus_core.experiment import Value
from primus_core.plan import Layout, ModelSizes
from primus_core.planning.datavocabulary import BYTE_VOCABULARY

_LOCAL_BATCH = "training.local_batch_size"


def model_of(draft: Draft) -> dict[str, Value]:
    """The architecture as it will be built, by portable name."""
    native = {key.removeprefix("model."): value for key, value in draft.native.items() if key.startswith("model.")}
    return {**DEFAULTS, **native}


def adjust_model(draft: Draft) -> None:
    """Vocabulary and positions as they were meant."""
    if draft["model.vocab_size"] is None:
        draft.adjust("model.vocab_size", BYTE_VOCABULARY, "the vocabulary of ByteLevelTokenizer")
    if draft["model.padded_vocab_size"] is None and not draft.aligned:
        draft.adjust("model.padded_vocab_size", draft["model.vocab_size"], "semantics: native; TorchTitan pads nothing")
    if draft["checkpoint.load_hf"]:
        why = "rows of padding would take part in the softmax, which the weights in load_hf were not trained with"
        draft.adjust_unset("model.make_vocab_size_divisible_by", 1, why)
    if draft["model.padded_vocab_size"] is None:
        multiple = draft.integer("model.make_vocab_size_divisible_by", 128)
        multiple *= draft.integer("parallelism.tensor_parallel_degree")
        rows = -(-draft.integer("model.vocab_size") // multiple) * multiple
        why = f"vocab_size rounded up to a multiple of {multiple}, make_vocab_size_divisible_by x tensor parallel"
        draft.adjust("model.padded_vocab_size", rows, why)
    if draft["model.max_position_embeddings"] is None:
        why = "nobody set it; the sequence length is the least"
        draft.adjust("model.max_position_embeddings", draft["training.seq_len"], why)


def layout_of(draft: Draft) -> Layout:
    """How ranks and samples are divided."""
    pipeline = draft.integer("parallelism.pipeline_parallel_degree")
    batch = draft.integer("training.global_batch_size")
    natives = {
        **{name: f"parallelism.{name}_parallel_degree" for name in ("tensor", "pipeline", "context", "expert")},
        "micro_batch_size": "parallelism.pipeline_parallel_microbatch_size" if pipeline > 1 else _LOCAL_BATCH,
        "global_batch_size": "training.global_batch_size",
    }
    return Layout(
        tensor=draft.integer(natives["tensor"]),
        pipeline=pipeline,
        context=draft.integer(natives["context"]),
        expert=draft.integer(natives["expert"]),
        micro_batch_size=draft.integer(natives["micro_batch_size"]),
        global_batch_size=batch if batch > 0 else None,
        data=_copies_of_shards(draft),
        names={name: native for name, native in natives.items() if _is_native(native, draft)},
    )


def _copies_of_shards(draft: Draft) -> int:
    copies, shards = (draft.integer(f"parallelism.data_parallel_{name}_degree") for name in ("replicate", "shard"))
    return copies * max(1, shards)


def _is_native(native: str, draft: Draft) -> bool:
    """Whether a parameter is set by TorchTitan's path; the pipeline's micro batch is where the local batch is."""
    wish = draft.asked.wishes.get(native)
    if wish is None and native == "parallelism.pipeline_parallel_microbatch_size":
        wish = draft.asked.wishes.get(_LOCAL_BATCH)
    return wish is not None and wish.path not in RULES


def shape_of(draft: Draft) -> ModelSizes:
    """The model with what nobody set filled in."""
    model = model_of(draft)
    heads, hidden = size(model, "num_attention_heads"), size(model, "hidden_size")
    experts = size(model, "num_experts", 0)
    ffn = ffn_hidden_size(model)
    grouped = model["group_query_attention"] is not False and model["num_query_groups"] is not None
    return ModelSizes(
        layers=size(model, "num_layers"),
        hidden=hidden,
        ffn_hidden=ffn,
        heads=heads,
        query_groups=size(model, "num_query_groups", heads) if grouped else heads,
        head_size=size(model, "kv_channels", hidden // heads),
        sequence=draft.integer("training.seq_len"),
        vocabulary=size(model, "padded_vocab_size"),
        gated_mlp=bool(model["swiglu"]),
        tied_embeddings=not model["untie_embeddings_and_output_weights"],
        experts=experts,
        experts_per_token=size(model, "moe_router_topk", 0) if experts else 0,
        moe_ffn_hidden=size(model, "moe_ffn_hidden_size", ffn) if experts else 0,
    )
