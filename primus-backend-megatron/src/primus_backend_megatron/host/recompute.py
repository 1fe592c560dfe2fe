"""Which layers compute their activations again in the backward pass."""

from __future__ import annotations

from primus_backend_megatron.host.draft import Draft

_IDS = "recompute_layer_ids"


def adjust_recompute(draft: Draft) -> None:
    """What Megatron makes of older names, and of ``recompute_layer_ids``, which is not Megatron's: as many layers, the
    first ones of each stage, take as much memory."""
    _renamed(draft)
    layers = _count(draft.asked.left_out.get(_IDS))
    if not layers or draft["recompute_granularity"] != "full" or draft["recompute_method"] is not None:
        return
    parts = draft.integer("pipeline_model_parallel_size") * chunks_of(draft)
    why = f"{_IDS} names {layers} layers; Megatron counts them from the first of each pipeline stage"
    draft.adjust("recompute_method", "block", why)
    draft.adjust("recompute_num_layers", -(-layers // parts), why)


def _renamed(draft: Draft) -> None:
    """Two older names for parts that are recomputed; with full recomputation Megatron refuses the second."""
    if draft["recompute_activations"]:
        draft.adjust("recompute_granularity", "selective", "recompute_activations asks for it")
    if draft["moe_layer_recompute"] and draft["recompute_granularity"] != "full":
        why = "moe_layer_recompute asks for it"
        modules = draft["recompute_modules"]
        draft.adjust("recompute_granularity", "selective", why)
        draft.adjust("recompute_modules", [*(modules if isinstance(modules, list) else ["core_attn"]), "moe"], why)


def _count(ids: object) -> int:
    """Of the layers in a list, or in text with commas."""
    if isinstance(ids, str):
        return len([word for word in ids.split(",") if word.strip()])
    return len(ids) if isinstance(ids, list) else 0


def chunks_of(draft: Draft) -> int:
    """Parts of a pipeline stage that the interleaved schedule runs by turns."""
    chunks = draft["num_virtual_stages_per_pipeline_rank"]
    return chunks if isinstance(chunks, int) else 1
