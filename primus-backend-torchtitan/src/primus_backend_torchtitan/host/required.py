"""Parameters without which no training starts, and numbers that no training can have."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.host.asked import Asked
from primus_core.errors import ConfigError
from primus_core.experiment import Experiment, Module

_ALWAYS = {
    "model.num_layers": ("num_layers", "32"),
    "model.hidden_size": ("hidden_size", "4096"),
    "model.num_attention_heads": ("num_attention_heads", "32"),
    "training.seq_len": ("seq_length", "4096"),
    "training.local_batch_size": ("micro_batch_size", "1"),
    "training.steps": ("train_iters", "1000"),
    "optimizer.lr": ("lr", "3.0e-4"),
}
"""Native path, portable name, and a value that shows how it is written."""

_POSITIVE = (
    "model.num_layers",
    "model.hidden_size",
    "model.ffn_hidden_size",
    "model.num_attention_heads",
    "model.num_query_groups",
    "model.kv_channels",
    "model.vocab_size",
    "model.padded_vocab_size",
    "model.make_vocab_size_divisible_by",
    "model.max_position_embeddings",
    "model.kv_lora_rank",
    "model.qk_head_dim",
    "model.qk_pos_emb_head_dim",
    "model.v_head_dim",
    "model.moe_ffn_hidden_size",
    "model.moe_router_topk",
    "parallelism.tensor_parallel_degree",
    "parallelism.pipeline_parallel_degree",
    "parallelism.context_parallel_degree",
    "parallelism.expert_parallel_degree",
    "parallelism.data_parallel_replicate_degree",
    "parallelism.pipeline_parallel_microbatch_size",
    "training.local_batch_size",
    "training.seq_len",
    "training.steps",
    "metrics.log_freq",
    "checkpoint.interval",
    "validator.freq",
    "lr_scheduler.total_steps",
)
_NOT_NEGATIVE = (
    "optimizer.lr",
    "optimizer.weight_decay",
    "optimizer.eps",
    "lr_scheduler.min_lr",
    "lr_scheduler.warmup_steps",
    "training.max_norm",
    "debug.seed",
    "model.num_experts",
    "model.q_lora_rank",
    "model.moe_shared_expert_intermediate_size",
    "model.moe_router_bias_update_rate",
)


def missing(asked: Asked, experiment: Experiment, module: Module) -> Iterator[ConfigError]:
    """One error that names everything that a run needs and nobody set; a value of the wrong type has one of its own."""
    by_groups = asked.wishes.get("optimizer.param_groups")
    needed = {
        name: text
        for native, (name, text) in _ALWAYS.items()
        if native not in asked.wishes
        and not any(key in module.params and module.params[key].value is not None for key in (name, native))
        and not (native == "optimizer.lr" and by_groups)
    }
    if needed:
        lines = "\n".join(f"  {name}: {text}" for name, text in needed.items())
        yield ConfigError(
            f"{', '.join(f'`{name}`' for name in needed)} {'is' if len(needed) == 1 else 'are'} not set",
            where=f"{experiment.file}, modules.{module.name}",
            why="TorchTitan cannot start without",
            remedy=f"set under `overrides`, for example:\n{lines}",
        )


def out_of_limits(asked: Asked) -> Iterator[ConfigError]:
    """One error for each parameter with a number that it may not have."""
    for names, least in ((_POSITIVE, 1), (_NOT_NEGATIVE, 0)):
        for native in names:
            wish = asked.wishes.get(native)
            if wish is None or isinstance(wish.value, bool) or not isinstance(wish.value, (int, float)):
                continue
            if wish.value < least:
                yield ConfigError(
                    f"`{wish.path}` is {wish.value}", where=str(wish.leaf.origin), remedy=f"set it to {least} or more"
                )
