"""Models whose tensors are compared: small ones, and all that a preset describes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import primus_backend_megatron
from primus_core.experiment import Value
from tests.megatron.layouts import GPT, LATENT, LLAMA
from tests.truth.models import presets_of

DEPTH = 8
_WIDE: Mapping[str, Value] = {**LLAMA, "num_layers": DEPTH, "num_attention_heads": 8, "hidden_size": 48}
_EXPERTS: Mapping[str, Value] = {
    "num_experts": 8,
    "moe_router_topk": 2,
    "moe_ffn_hidden_size": 24,
    "moe_shared_expert_intermediate_size": 16,
    "moe_layer_freq": f"([0]*2+[1]*{DEPTH - 2})",
    "moe_token_dispatcher_type": "alltoall",
}
_MIXTURE: Mapping[str, Value] = {
    **_WIDE,
    **LATENT,
    **_EXPERTS,
    "qk_pos_emb_head_dim": 8,
    "qk_layernorm": True,
    "bf16": True,
    "moe_router_enable_expert_bias": True,
    "moe_router_score_function": "sigmoid",
    "mtp_num_layers": 1,
}
SMALL: Mapping[str, Mapping[str, Value]] = {
    "dense": {**_WIDE, **GPT, "ffn_hidden_size": 72, "vocab_size": 101, "bf16": True},
    "grouped": {**_WIDE, "num_query_groups": 8, "kv_channels": 10, "qk_layernorm": True, "ffn_hidden_size": 72},
    "mixture": _MIXTURE,
}
"""One of each way to hold weights, with sizes that few numbers of ranks divide."""
LISTED: Mapping[str, Mapping[str, Value]] = {
    "predicting apart": {**_MIXTURE, "mtp_num_layers": 2, "pipeline_model_parallel_layout": "Et*4|t*4|m*2|L"},
    "predicting at the end": {**_MIXTURE, "pipeline_model_parallel_layout": "Et*3|t*3|t*2|mL"},
}
"""With every layer's stage, which layouts of a pipeline alone can have."""


def presets() -> Iterator[tuple[str, Mapping[str, Value]]]:
    """Every preset that is a whole model by itself, by name, with an experiment's parameters."""
    return presets_of(primus_backend_megatron, "trainer_megatron.yaml")


def shallow(params: Mapping[str, Value]) -> Mapping[str, Value]:
    """The same model with four layers, of both kinds where it has two, and few experts."""
    few: dict[str, Value] = {**params, "num_layers": 4}
    if params.get("num_experts"):
        few["num_experts"] = 8
        few["moe_router_topk"] = 2
        few["moe_router_num_groups"] = few["moe_router_group_topk"] = None
        dense = not isinstance(params.get("moe_layer_freq", 1), int)
        few["moe_layer_freq"] = [0, 1, 1, 1] if dense else 1
    return few
