"""Numbers that Megatron would only refuse, or quietly misread, once it runs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from attrs import frozen

from primus_backend_megatron.host.asked import Asked
from primus_core.errors import ConfigError
from primus_core.experiment import Value


@frozen(kw_only=True)
class Limit:
    """The numbers that some parameters may have. Null is nobody's number, and allowed."""

    names: tuple[str, ...]
    wanted: str
    """The rule in words."""
    least: float
    above: bool = False
    """The least itself is too small."""
    below: float = math.inf

    def allows(self, value: float) -> bool:
        return self.least <= value < self.below and not (self.above and value == self.least)


LIMITS = (
    Limit(
        wanted="1 or more",
        least=1,
        names=(
            "num_layers",
            "hidden_size",
            "ffn_hidden_size",
            "num_attention_heads",
            "num_query_groups",
            "kv_channels",
            "seq_length",
            "max_position_embeddings",
            "vocab_size",
            "padded_vocab_size",
            "make_vocab_size_divisible_by",
            "tensor_model_parallel_size",
            "pipeline_model_parallel_size",
            "context_parallel_size",
            "expert_model_parallel_size",
            "expert_tensor_parallel_size",
            "num_distributed_optimizer_instances",
            "num_layers_per_virtual_pipeline_stage",
            "num_virtual_stages_per_pipeline_rank",
            "micro_batch_size",
            "global_batch_size",
            "eval_micro_batch_size",
            "eval_global_batch_size",
            "train_iters",
            "train_samples",
            "lr_decay_iters",
            "lr_decay_samples",
            "moe_ffn_hidden_size",
            "moe_router_topk",
            "log_interval",
            "tensorboard_log_interval",
            "eval_interval",
            "save_interval",
            "save_retain_interval",
            "non_persistent_save_interval",
            "seed",
        ),
    ),
    Limit(
        wanted="0 or more",
        least=0,
        names=(
            "lr",
            "min_lr",
            "decoupled_lr",
            "decoupled_min_lr",
            "lr_warmup_init",
            "lr_warmup_iters",
            "lr_warmup_samples",
            "lr_wsd_decay_iters",
            "lr_wsd_decay_samples",
            "weight_decay",
            "start_weight_decay",
            "end_weight_decay",
            "clip_grad",
            "adam_eps",
            "layernorm_epsilon",
            "init_method_std",
            "embedding_init_method_std",
            "eval_iters",
            "start_eval_at_iter",
            "exit_interval",
            "exit_duration_in_mins",
            "manual_gc_interval",
            "ckpt_step",
            "num_workers",
            "num_experts",
            "mtp_num_layers",
            "recompute_num_layers",
            "moe_aux_loss_coeff",
            "moe_z_loss_coeff",
            "decoder_first_pipeline_num_layers",
            "decoder_last_pipeline_num_layers",
        ),
    ),
    Limit(
        wanted="more than 0",
        least=0,
        above=True,
        names=("rotary_base", "rope_scaling_factor", "loss_scale", "initial_loss_scale", "min_loss_scale"),
    ),
    Limit(
        wanted="0 or more, and less than 1",
        least=0,
        below=1,
        names=("adam_beta1", "adam_beta2", "attention_dropout", "hidden_dropout", "lr_warmup_fraction"),
    ),
)


def out_of_limits(asked: Asked) -> Iterator[ConfigError]:
    """One error for each parameter with a number that it may not have."""
    for limit in LIMITS:
        for name in filter(asked.values.__contains__, limit.names):
            wrong = [number for number in _numbers(asked.values[name]) if not limit.allows(number)]
            if wrong:
                yield ConfigError(
                    f"`{asked.paths[name]}` is {wrong[0]}",
                    where=str(asked.leaves[name].origin),
                    remedy=f"set it to {limit.wanted}",
                )


def _numbers(value: Value) -> list[float]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, (int, float)) and not isinstance(item, bool)]
