"""Parameters that Megatron has and this back end cannot honour, or treats as paths. Reviewed by hand."""

from __future__ import annotations

from attrs import frozen


@frozen
class Refused:
    """A parameter that Megatron has and that would start something else than this back end's training."""

    name: str
    why: str
    remedy: str


_DATA = "Primus reads the data itself and gives Megatron the prepared index"
_GPT = "this back end trains GPT models (dense, mixture of experts, multi-latent attention)"
_RENAMED = "Megatron refuses this old name"

REFUSED = (
    Refused("data_args_path", _DATA, "name the data with `train_data_path`"),
    Refused("per_split_data_args_path", _DATA, "use `train_data_path`, `valid_data_path` and `test_data_path`"),
    Refused("yaml_cfg", "it would replace every other parameter of the experiment", "move its values here"),
    Refused("perform_rl_step", _GPT, "remove it"),
    Refused("sft", "this back end pre-trains on token files", "remove it"),
    Refused("fim_data", "this back end pre-trains on plain token files", "remove it"),
    Refused("dataloader_inter_document_masking", "this back end packs no documents", "use `reset_attention_mask`"),
    Refused("hybrid_context_parallel", "it needs packed documents", "use `context_parallel_size` alone"),
    Refused("logits_save_dir", "this back end does not record logits", "remove it"),
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
    "load_hf",
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
