"""Every way to divide a model and its training, in parameters as a user writes them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from primus_backend_megatron import host
from primus_core.experiment import Value
from primus_core.outcome import Where
from primus_core.plan import RunPlan
from tests.megatron.experiments import plan_of

LLAMA: Mapping[str, Value] = {
    "num_layers": 2,
    "hidden_size": 32,
    "ffn_hidden_size": 64,
    "num_attention_heads": 4,
    "num_query_groups": 2,
    "normalization": "RMSNorm",
    "swiglu": True,
    "position_embedding_type": "rope",
    "add_bias_linear": False,
    "untie_embeddings_and_output_weights": True,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "seq_length": 32,
    "vocab_size": 100,
    "make_vocab_size_divisible_by": 2,
    "micro_batch_size": 1,
    "global_batch_size": 4,
    "train_iters": 20,
    "lr": 1e-2,
    "mock_data": True,
}
"""RMSNorm, SwiGLU, RoPE, grouped queries; on generated tokens."""

TP2: Mapping[str, Value] = {"tensor_model_parallel_size": 2}
SP2: Mapping[str, Value] = {**TP2, "sequence_parallel": True}
PP2: Mapping[str, Value] = {"pipeline_model_parallel_size": 2}
CP2: Mapping[str, Value] = {"context_parallel_size": 2}
EP2: Mapping[str, Value] = {"num_experts": 4, "moe_router_topk": 2, "expert_model_parallel_size": 2}
DISTRIBUTED: Mapping[str, Value] = {"use_distributed_optimizer": True}
OVERLAPPED: Mapping[str, Value] = {**DISTRIBUTED, "overlap_grad_reduce": True, "overlap_param_gather": True}
FULL: Mapping[str, Value] = {
    "recompute_granularity": "full",
    "recompute_method": "uniform",
    "recompute_num_layers": 1,
}
LATENT: Mapping[str, Value] = {
    "multi_latent_attention": True,
    "num_query_groups": None,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_head_dim": 8,
    "qk_pos_emb_head_dim": 4,
    "v_head_dim": 8,
}
GPT: Mapping[str, Value] = {
    "num_query_groups": None,
    "normalization": "LayerNorm",
    "swiglu": False,
    "position_embedding_type": "learned_absolute",
    "add_bias_linear": True,
    "untie_embeddings_and_output_weights": False,
}


@frozen
class Layout:
    """What differs from the Llama on ranks that each hold all of it."""

    params: Mapping[str, Value] = field(factory=dict)
    ranks: int = 2


LAYOUTS: Mapping[str, Layout] = {
    "Llama shape, data parallel": Layout(),
    "distributed optimizer, overlapped": Layout(OVERLAPPED),
    "tensor parallel": Layout(TP2),
    "tensor and sequence parallel": Layout(SP2),
    "pipeline, 1F1B": Layout(PP2),
    "pipeline, virtual stages": Layout({**PP2, "num_layers": 4, "num_virtual_stages_per_pipeline_rank": 2}),
    "context parallel": Layout(CP2),
    "experts, allgather": Layout({**EP2, "moe_token_dispatcher_type": "allgather"}),
    "experts, alltoall": Layout({**EP2, "moe_token_dispatcher_type": "alltoall"}),
    "experts and tensor parallel": Layout({**EP2, **SP2, "moe_token_dispatcher_type": "alltoall"}, ranks=4),
    "latent attention": Layout(LATENT),
    "GPT shape": Layout(GPT),
    "bf16": Layout({"bf16": True}),
    "full recompute": Layout(FULL),
    "selective recompute": Layout({"recompute_granularity": "selective"}),
    "dropout": Layout({"attention_dropout": 0.1, "hidden_dropout": 0.1}),
    "tensor parallel and pipeline": Layout({**TP2, **PP2}, ranks=4),
}


def legal_plan(params: Mapping[str, Value], ranks: int) -> RunPlan:
    """The host's own plan for the Llama with these parameters, which its checks let pass."""
    plan = plan_of({**LLAMA, **params}, ranks=ranks)
    assert list(host.preflight_check(plan, Where.SUBMIT)) == []
    return plan
