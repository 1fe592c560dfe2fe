"""Parameters of Megatron that change the memory of a step, each switched in a model in which it has an effect."""

from __future__ import annotations

from attrs import field, frozen

from primus_core.experiment import Value
from tests.megatron.truth.live_cases import (
    DENSE,
    GPT,
    LARGE_VOCABULARY,
    LATENT,
    NEXT,
    SEQUENCE,
    SHARED,
    TENSOR,
    Params,
)


@frozen
class Switch:
    """A parameter that is switched, in a model in which it has an effect."""

    name: str
    value: Value
    base: Params = DENSE
    others: Params = field(factory=dict)
    """What it is switched together with, on both sides."""

    @property
    def before(self) -> Params:
        return {**DENSE, **_COMMON, **self.base, **self.others}

    @property
    def after(self) -> Params:
        return {**self.before, self.name: self.value}


_COMMON: Params = {"global_batch_size": 16, "gradient_accumulation_fusion": False}
_EXPERTS: Params = {
    **SHARED,
    "expert_model_parallel_size": 2,
    "moe_grouped_gemm": True,
    "moe_permute_fusion": True,
}
_UNFUSED: Params = {"attention_backend": "unfused"}
_AWARE: Params = {"use_precision_aware_optimizer": True}
_FULL: Params = {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
_SELECTIVE: Params = {"recompute_granularity": "selective"}
_LOCAL: Params = {"transformer_impl": "local"}
_RELU: Params = {"swiglu": False, "squared_relu": True}
_STAGES: Params = {"pipeline_model_parallel_size": 2, "num_layers": 8}
_BUCKETS: Params = {"ddp_pad_buckets_for_high_nccl_busbw": True}
_OVERLAP: Params = {"overlap_grad_reduce": True}

SWITCHES = (
    Switch("fp8", "hybrid"),
    Switch("fp4", "e2m1"),
    Switch("fp16", True, others={"bf16": False}),
    Switch("bf16", False),
    Switch("fp32_residual_connection", True),
    Switch("grad_reduce_in_bf16", True),
    Switch("main_grads_dtype", "bf16"),
    Switch("exp_avg_dtype", "bf16", others=_AWARE),
    Switch("exp_avg_sq_dtype", "bf16", others=_AWARE),
    Switch("use_precision_aware_optimizer", True),
    Switch("accumulate_allreduce_grads_in_fp32", True, others={"bf16": False, "fp16": True}),
    Switch("ddp_param_name_patterns_for_fp32_local_accumulation", ["*"]),
    Switch("ddp_reduce_scatter_with_fp32_accumulation", True),
    Switch("ddp_pad_buckets_for_high_nccl_busbw", True),
    Switch("overlap_param_gather", True, others={**_OVERLAP, "use_distributed_optimizer": False}),
    Switch("overlap_grad_reduce", True, others={**_BUCKETS, "ddp_bucket_size": 1_000_000}),
    Switch("main_params_dtype", "fp16", others={**_AWARE, "bf16": False, "fp16": True}),
    Switch("te_precision_config_file", "numbers.yaml"),
    Switch("optimizer_cpu_offload", True, others=_AWARE),
    Switch("fine_grained_activation_offloading", True, others={"offload_modules": ["attn_norm"]}),
    Switch("cpu_offloading_num_layers", 1),
    Switch("moe_paged_stash", True, _EXPERTS),
    Switch("recompute_granularity", "selective"),
    Switch("recompute_activations", True),
    Switch("recompute_method", "block", others=_FULL),
    Switch("recompute_num_layers", 2, others=_FULL),
    Switch("recompute_modules", ["mlp"], others=_SELECTIVE),
    Switch("moe_layer_recompute", True, _EXPERTS),
    Switch("distribute_saved_activations", True, TENSOR, _FULL),
    Switch("freeze_all_layers", True),
    Switch("cuda_graph_impl", "local"),
    Switch("enable_cuda_graph", True),
    Switch("external_cuda_graph", True),
    Switch("optimizer_cuda_graph", True),
    Switch("transformer_impl", "local"),
    Switch("attention_backend", "unfused"),
    Switch("masked_softmax_fusion", False, others=_LOCAL),
    Switch("reset_attention_mask", True, others={**_LOCAL, "masked_softmax_fusion": False}),
    Switch("experimental_attention_variant", "gated_delta_net"),
    Switch("experimental_attention_variant", "dsa", LATENT),
    Switch("attention_dropout", 0.1, others=_UNFUSED),
    Switch("attention_output_gate", True),
    Switch("use_kitchen_attention", True),
    Switch("softmax_type", "learnable"),
    Switch("group_query_attention", False),
    Switch("num_attention_heads", 16),
    Switch("multi_latent_attention", True, {**LATENT, "multi_latent_attention": False}),
    Switch("mla_down_proj_fusion", True, LATENT),
    Switch("qk_layernorm", True),
    Switch("qk_l2_norm", True),
    Switch("qk_clip", True),
    Switch("log_max_attention_logit", True),
    Switch("qk_head_dim", 128, LATENT),
    Switch("qk_pos_emb_head_dim", 64, LATENT),
    Switch("bias_swiglu_fusion", False),
    Switch("bias_gelu_fusion", False, _EXPERTS, {"swiglu": False}),
    Switch("bias_dropout_fusion", False, GPT),
    Switch("cross_entropy_loss_fusion", True, LARGE_VOCABULARY, {"bf16": False}),
    Switch("fused_residual_rmsnorm", True),
    Switch("use_fused_weighted_squared_relu", True, _EXPERTS, _RELU),
    Switch("apply_rope_fusion", False),
    Switch("gradient_accumulation_fusion", True),
    Switch("use_transformer_engine_op_fuser", True),
    Switch("mlp_chunks_for_training", 2),
    Switch("tp_comm_overlap", True, SEQUENCE),
    Switch("tensor_parallel_num_weight_shards", 2),
    Switch("expert_tensor_parallel_num_weight_shards", 2, _EXPERTS),
    Switch("delay_wgrad_compute", True),
    Switch("overlap_dispatch_backward_with_experts_wgrad", True, _EXPERTS),
    Switch("save_dgrads_interval", 1),
    Switch("save_wgrads_interval", 1),
    Switch("deterministic_mode", True),
    Switch("batch_invariant_mode", True),
    Switch("defer_embedding_wgrad_compute", True, _STAGES),
    Switch("use_torch_fsdp2", True, others={"use_distributed_optimizer": False}),
    Switch("use_megatron_fsdp", True),
    Switch("moe_token_dispatcher_type", "allgather", _EXPERTS),
    Switch("moe_token_dispatcher_type", "flex", _EXPERTS),
    Switch("moe_expert_capacity_factor", 0.5, _EXPERTS),
    Switch("moe_pad_expert_input_to_capacity", True, _EXPERTS, {"moe_expert_capacity_factor": 2.0}),
    Switch("moe_expert_rank_capacity_factor", 1.0, _EXPERTS),
    Switch("moe_router_padding_for_fp8", True, _EXPERTS),
    Switch("moe_router_dtype", "fp64", _EXPERTS),
    Switch("moe_router_fusion", True, _EXPERTS),
    Switch("moe_permute_fusion", False, _EXPERTS),
    Switch("moe_grouped_gemm", False, _EXPERTS),
    Switch("moe_router_topk", 4, _EXPERTS),
    Switch("moe_router_enable_expert_bias", True, _EXPERTS, {"moe_router_score_function": "sigmoid"}),
    Switch("moe_shared_expert_intermediate_size", 1024, _EXPERTS),
    Switch("moe_shared_expert_overlap", True, _EXPERTS),
    Switch("moe_aux_loss_coeff", [0.01], _EXPERTS),
    Switch("moe_latent_size", 128, _EXPERTS),
    Switch("overlap_moe_expert_parallel_comm", True, _EXPERTS),
    Switch("mtp_num_layers", 1),
    Switch("mtp_use_repeated_layer", True, NEXT),
    Switch("mtp_detach_heads", True, NEXT),
    Switch("mtp_standalone", True, NEXT),
    Switch("mtp_hybrid_override_pattern", "M", NEXT),
    Switch("spec", ["a.module", "layer"]),
    Switch("hybrid_layer_pattern", "M*"),
    Switch("hybrid_override_pattern", "M*"),
    Switch("heterogeneous_layers_config_path", "layers.json"),
    Switch("heterogeneous_layers_config_encoded_json", "{}"),
    Switch("logits_load_dir", "logits"),
)
