"""Parameter names that are not Megatron's own, or that it has and this back end cannot honour. Reviewed by hand."""

from __future__ import annotations

from attrs import frozen

from primus_core.experiment import Value


@frozen
class Alias:
    """Another spelling of one of Megatron's parameters."""

    name: str
    native: str
    why: str


@frozen
class Inactive:
    """A parameter of another product that has nothing to act on here."""

    name: str
    why: str
    """Why leaving it out changes no result."""
    harmless: tuple[Value, ...] | None = None
    """The values for which that is true; None: all of them."""
    remedy: str = ""
    """What to do instead when another value was asked for."""


@frozen
class Refused:
    """A parameter that Megatron has and that would start something else than this back end's training."""

    name: str
    why: str
    remedy: str


ALIASES = (
    Alias("norm_epsilon", "layernorm_epsilon", "Megatron reads layernorm_epsilon for every kind of norm"),
    Alias(
        "virtual_pipeline_model_parallel_size",
        "num_virtual_stages_per_pipeline_rank",
        "Megatron derives virtual_pipeline_model_parallel_size from it",
    ),
    Alias("enable_gloo_process_groups", "use_gloo_process_groups", "the name before megatron-core 0.19"),
    Alias("use_custom_fsdp", "use_megatron_fsdp", "the name before megatron-core 0.14"),
    Alias("load_step", "ckpt_step", "the portable name of the checkpoint's iteration"),
    Alias("fp4_param", "fp4_param_gather", "the name in Megatron's model configuration"),
    Alias("muon_use_nesterov", "muon_nesterov", "the name before megatron-core 0.19"),
)

_METRICS = "metrics.jsonl has the figures of every iteration, unaveraged"
_TURBO = "the Primus-Turbo kernels are not part of this back end; Megatron's own compute the same"
_OFF = "the tracker is off unless its own parameters name it completely"

INACTIVE = (
    Inactive("log_avg_skip_iterations", _METRICS),
    Inactive("log_avg_reset_interval", _METRICS),
    Inactive(
        "disable_last_saving", "Megatron always saves after the last iteration when `save` is set; nothing is lost"
    ),
    Inactive("disable_tensorboard", _OFF, (True, None), "set `tensorboard_dir` to switch TensorBoard on"),
    Inactive("disable_wandb", _OFF, (True, None), "set `wandb_project` and `wandb_exp_name` to switch wandb on"),
    Inactive("disable_mlflow", "there is no MLflow here", (True, None), "remove it; MLflow is not supported"),
    Inactive("enable_primus_turbo", _TURBO),
    Inactive("use_turbo_attention", _TURBO),
    Inactive("use_turbo_gemm", _TURBO),
    Inactive("use_turbo_grouped_gemm", _TURBO),
    Inactive("use_turbo_deepep", _TURBO),
    Inactive("turbo_deepep_num_cu", _TURBO),
    Inactive("turbo_deepep_use_comm_stream", _TURBO),
    Inactive("turbo_sync_free_moe_stage", _TURBO),
    Inactive("moe_use_legacy_grouped_gemm", "megatron-core has one grouped GEMM left; it computes the same"),
)

_DATA = "Primus reads the data itself and gives Megatron the prepared index"
_GPT = "this back end trains GPT models (dense, mixture of experts, multi-latent attention)"
_RENAMED = "Megatron refuses this old name"

REFUSED = (
    Refused("data_args_path", _DATA, "name the data with `train_data_path`"),
    Refused("per_split_data_args_path", _DATA, "use `train_data_path`, `valid_data_path` and `test_data_path`"),
    Refused("yaml_cfg", "it would replace every other parameter of the experiment", "move its values here"),
    Refused("spec", "it would replace the model's layers behind the checks", "remove it"),
    Refused("perform_rl_step", _GPT, "remove it"),
    Refused("sft", "this back end pre-trains on token files", "remove it"),
    Refused("fim_data", "this back end pre-trains on plain token files", "remove it"),
    Refused("dataloader_inter_document_masking", "this back end packs no documents", "use `reset_attention_mask`"),
    Refused("hybrid_context_parallel", "it needs packed documents", "use `context_parallel_size` alone"),
    Refused("logits_save_dir", "this back end does not record logits", "remove it"),
    Refused("hybrid_layer_pattern", _GPT, "remove it"),
    Refused("hybrid_override_pattern", _GPT, "remove it"),
    Refused("is_hybrid_model", _GPT, "remove it"),
    Refused("vision_pretraining", _GPT, "remove it"),
    Refused("batch_size", _RENAMED, "use `micro_batch_size`"),
    Refused("warmup", _RENAMED, "use `lr_warmup_fraction` or `lr_warmup_iters`"),
    Refused("model_parallel_size", _RENAMED, "use `tensor_model_parallel_size`"),
    Refused("checkpoint_activations", _RENAMED, "use `recompute_granularity`"),
)

TOKENIZER_DETAILS = (
    "vocab_file",
    "merge_file",
    "special_tokens",
    "metadata_path",
    "vocab_extra_ids",
    "tiktoken_pattern",
    "tiktoken_num_special_tokens",
    "tokenizer_sentencepiece_legacy",
    "tokenizer_sentencepiece_ignore_extra_whitespaces",
    "chat_template",
)
"""Parameters of Megatron's tokenizers that would change token ids and that tokenization by Primus does not read."""

PATHS_READ = (
    "load",
    "pretrained_checkpoint",
    "heterogeneous_layers_config_path",
    "te_precision_config_file",
    "tp_comm_overlap_cfg",
    "nccl_communicator_config_path",
    "logits_load_dir",
    "per_dataset_sequences_path",
)
"""Parameters that name a file or folder to read."""

PATHS_WRITTEN = (
    "save",
    "ckpt_convert_save",
    "config_logger_dir",
    "data_cache_path",
    "flight_recorder_dump_path",
    "memory_snapshot_path",
    "moe_routing_trace_path",
    "non_persistent_global_ckpt_dir",
    "non_persistent_local_ckpt_dir",
    "result_rejected_tracker_filename",
    "rl_profile_dir",
    "tensorboard_dir",
    "wandb_save_dir",
)
"""Parameters that name a file or folder that Megatron writes."""
