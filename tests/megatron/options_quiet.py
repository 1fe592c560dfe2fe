"""Parameters of Megatron whose names sound of memory and that need neither a figure nor a note of their own."""

from __future__ import annotations

from collections.abc import Mapping

BESIDE: Mapping[str, tuple[str, ...]] = {
    "fp8": (
        "fp8_amax_compute_algo",
        "fp8_amax_history_len",
        "fp8_interval",
        "fp8_margin",
        "fp8_output_proj",
        "fp8_param_gather",
        "fp8_quantizer_factory",
        "fp8_recipe",
        "fp8_wgrad",
        "keep_fp8_transpose_cache",
        "reuse_grad_buf_for_mxfp8_param_ag",
    ),
    "fp4": ("fp4_param_gather", "fp4_quantizer_factory", "fp4_recipe"),
    "use_megatron_fsdp": (
        "fsdp_double_buffer",
        "megatron_fsdp_grad_comm_dtype",
        "megatron_fsdp_main_grads_dtype",
        "megatron_fsdp_main_params_dtype",
        "megatron_fsdp_max_pool_double_buffer",
    ),
    "cuda_graph_impl": ("cuda_graph_modules", "cuda_graph_scope_deprecated", "cuda_graph_warmup_steps"),
    "optimizer_cpu_offload": (
        "optimizer_offload_fraction",
        "overlap_cpu_optimizer_d2h_h2d",
        "pin_cpu_grads",
        "pin_cpu_params",
        "use_torch_optimizer_for_cpu_offload",
    ),
    "fine_grained_activation_offloading": (
        "activation_offload_fraction",
        "delay_offload_until_cuda_graph",
        "delta_offload_bytes_across_pp_ranks",
        "fine_grained_offloading_max_inflight_offloads",
        "min_offloaded_tensor_size",
        "offload_modules",
    ),
    "cpu_offloading_num_layers": ("cpu_offloading_retain_pinned_cpu_buffers",),
    "moe_paged_stash": ("moe_paged_stash_buffer_size_factor_cpu", "moe_paged_stash_buffer_size_factor_cuda"),
    "moe_token_dispatcher_type": (
        "moe_flex_dispatcher_backend",
        "moe_flex_dispatcher_num_sms",
        "moe_permute_fusion_into_hybridep",
    ),
    "masked_softmax_fusion": ("attention_softmax_in_fp32",),
    "use_kitchen_attention": ("kitchen_attention_backend",),
    "defer_embedding_wgrad_compute": ("wgrad_deferral_limit",),
    "tp_comm_overlap": ("tp_comm_bulk_dgrad", "tp_comm_bulk_wgrad", "tp_comm_overlap_rs_dgrad"),
    "experimental_attention_variant": ("linear_attention_freq",),
}
"""What acts only where another parameter is on, of which a note is told or which is refused, by that parameter."""

NO_MEMORY: Mapping[str, tuple[str, ...]] = {
    "of inference": (
        "cache_mla_latents",
        "decode_only_cuda_graphs",
        "inference_cuda_graph_all_prefills",
        "inference_cuda_graph_max_tokens",
        "inference_cuda_graph_scope",
        "inference_dynamic_batching_buffer_size_gb",
        "inference_dynamic_batching_cuda_graph_mixed_prefill_count",
        "inference_dynamic_batching_cuda_graph_sizing_distribution",
        "inference_dynamic_batching_num_cuda_graphs",
        "inference_dynamic_batching_paused_buffer_size_gb",
        "inference_moe_disable_fused_quant_kernels",
        "inference_moe_token_dispatcher_type",
        "mamba_inference_conv_states_dtype",
        "mamba_inference_ssm_states_dtype",
        "moe_pad_experts_for_cuda_graph_inference",
    ),
    "of reinforcement learning, which is refused": (
        "rl_kv_cache_management_mode",
        "rl_offload_inference_model_weights_when_idle",
        "rl_offload_optimizer_during_inference",
        "rl_persist_cuda_graphs",
        "rl_training_cuda_graphs",
    ),
    "of models that this back end does not build": (
        "mamba_training_ssm_states_dtype",
        "relative_attention_max_distance",
        "relative_attention_num_buckets",
    ),
    "in the memory of the host, or on a disk": (
        "async_ckpt_cpu_priority",
        "async_ckpt_use_cpu_shm",
        "data_cache_path",
        "dataloader_fast_cache_load",
        "flight_recorder_trace_buffer_size",
        "logits_save_dtype",
        "object_storage_cache_path",
        "use_cpu_initialization",
    ),
    "a number for each weight tensor at most, or looked at once activations are freed": (
        "check_for_large_grads",
        "check_for_nan_in_loss_and_grad",
        "clip_grad",
        "log_num_zeros_in_grad",
    ),
    "in the same place, at another time or by another kernel that keeps the same": (
        "align_grad_reduce",
        "disable_bf16_reduced_precision_matmul",
        "flash_attention_version",
        "gradient_reduce_div_fusion",
    ),
    "between starts in one process": ("inprocess_empty_cuda_cache",),
    "set by Primus itself: a mask is read where reset_attention_mask asks for it": (
        "create_attention_mask_in_dataloader",
    ),
    "the translation leaves megatron-core one value": ("cross_entropy_fusion_impl",),
}
"""Why parameters change no memory of a training step on the GPU."""
