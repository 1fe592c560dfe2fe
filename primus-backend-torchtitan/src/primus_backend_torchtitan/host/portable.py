"""What each portable parameter is to TorchTitan. Reviewed by hand; every portable name has a row."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from primus_core.experiment import Value


@frozen(kw_only=True)
class Rule:
    """One portable parameter."""

    native: str = ""
    """TorchTitan's path, or one of those that Primus adds; empty: it does not reach TorchTitan."""
    words: Mapping[Value, Value] = field(factory=dict)
    """What TorchTitan calls each value; empty: the same."""
    why: str = ""
    """Why the value has another name, or does not reach TorchTitan."""


_DATA = "Primus reads the data itself; TorchTitan gets token ids"
_TOKENIZER = "Primus tokenizes; TorchTitan gets token ids"

ARCHITECTURE = (
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_attention_heads",
    "group_query_attention",
    "num_query_groups",
    "kv_channels",
    "qk_layernorm",
    "qk_l2_norm",
    "attention_output_gate",
    "softmax_type",
    "window_size",
    "window_attn_skip_freq",
    "multi_latent_attention",
    "rope_type",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_head_dim",
    "qk_pos_emb_head_dim",
    "v_head_dim",
    "max_position_embeddings",
    "position_embedding_type",
    "rotary_base",
    "rotary_percent",
    "use_rope_scaling",
    "rope_scaling_factor",
    "rotary_scaling_factor",
    "yarn_original_max_position_embeddings",
    "mscale",
    "mscale_all_dim",
    "yarn_beta_fast",
    "yarn_beta_slow",
    "yarn_correction_range_round_to_int",
    "no_rope_freq",
    "normalization",
    "layernorm_epsilon",
    "layernorm_zero_centered_gamma",
    "swiglu",
    "quick_geglu",
    "glu_linear_offset",
    "activation_func_clamp_value",
    "num_experts",
    "moe_ffn_hidden_size",
    "moe_layer_freq",
    "moe_shared_expert_intermediate_size",
    "moe_shared_expert_gate",
    "moe_router_topk",
    "moe_router_score_function",
    "moe_router_pre_softmax",
    "moe_router_topk_scaling_factor",
    "moe_router_num_groups",
    "moe_router_group_topk",
    "moe_router_enable_expert_bias",
    "moe_router_bias_update_rate",
    "moe_router_load_balancing_type",
    "moe_aux_loss_coeff",
    "moe_router_dtype",
    "moe_apply_probs_on_input",
    "mtp_num_layers",
    "mtp_loss_scaling_factor",
    "add_bias_linear",
    "add_qkv_bias",
    "untie_embeddings_and_output_weights",
    "hidden_dropout",
    "attention_dropout",
    "init_method_std",
    "vocab_size",
    "make_vocab_size_divisible_by",
)
"""Parameters of the model. TorchTitan has a Python function for each model instead; Primus builds one from these."""

RULES: Mapping[str, Rule] = {
    **{name: Rule(native=f"model.{name}") for name in ARCHITECTURE},
    "tensor_model_parallel_size": Rule(native="parallelism.tensor_parallel_degree"),
    "pipeline_model_parallel_size": Rule(native="parallelism.pipeline_parallel_degree"),
    "context_parallel_size": Rule(native="parallelism.context_parallel_degree"),
    "expert_model_parallel_size": Rule(native="parallelism.expert_parallel_degree"),
    "micro_batch_size": Rule(native="training.local_batch_size"),
    "global_batch_size": Rule(native="training.global_batch_size"),
    "train_iters": Rule(native="training.steps"),
    "seq_length": Rule(native="training.seq_len"),
    "clip_grad": Rule(native="training.max_norm"),
    "bf16": Rule(
        native="training.mixed_precision_param",
        words={True: "bfloat16", False: "float32"},
        why="TorchTitan names the format that it computes in",
    ),
    "optimizer": Rule(
        native="optimizer.name", words={"adam": "AdamW"}, why="Megatron's adam decays weights apart: AdamW"
    ),
    "lr": Rule(native="optimizer.lr"),
    "weight_decay": Rule(native="optimizer.weight_decay"),
    "adam_beta1": Rule(native="optimizer.beta1"),
    "adam_beta2": Rule(native="optimizer.beta2"),
    "adam_eps": Rule(native="optimizer.eps"),
    "min_lr": Rule(native="lr_scheduler.min_lr"),
    "lr_decay_style": Rule(native="lr_scheduler.decay_style"),
    "lr_decay_iters": Rule(native="lr_scheduler.total_steps"),
    "lr_warmup_iters": Rule(native="lr_scheduler.warmup_steps"),
    "seed": Rule(native="debug.seed"),
    "log_interval": Rule(native="metrics.log_freq"),
    "save": Rule(native="checkpoint.folder"),
    "load": Rule(native="checkpoint.load"),
    "load_hf": Rule(native="checkpoint.load_hf"),
    "load_step": Rule(native="checkpoint.load_step"),
    "save_interval": Rule(native="checkpoint.interval"),
    "eval_interval": Rule(native="validator.freq"),
    "eval_iters": Rule(native="validator.steps"),
    "mock_data": Rule(native="dataloader.mock"),
    "split": Rule(native="dataloader.split"),
    "reset_attention_mask": Rule(native="dataloader.documents"),
    "reset_position_ids": Rule(native="dataloader.document_positions"),
    "eod_mask_loss": Rule(native="dataloader.mask_document_ends"),
    "train_data_path": Rule(why=_DATA),
    "valid_data_path": Rule(why=_DATA),
    "test_data_path": Rule(why=_DATA),
    "tokenizer_type": Rule(why=_TOKENIZER),
    "tokenizer_model": Rule(why=_TOKENIZER),
}


def portable_keys() -> Mapping[str, str]:
    """TorchTitan's path of each portable parameter; empty for one that does not reach it."""
    return {name: rule.native for name, rule in RULES.items()}
