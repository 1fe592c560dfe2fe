"""What of an experiment makes a patch needed that other experiments do without."""

from __future__ import annotations

from primus_core.planning.patchrows import Need, Values, above_one


def _need(need: Need) -> Need:
    """Needed too where a checkpoint's own parameters will be used: what they say is not known yet."""
    return Need(need.words, lambda values: bool(values["use_checkpoint_args"]) or need.met(values))


def _is_set(*names: str) -> Need:
    """Any of the parameters is neither null, false nor zero."""

    def met(values: Values) -> bool:
        return any(values[name] for name in names)

    return _need(Need(" or ".join(f"{name} is set" for name in names), met))


PIPELINE = _need(above_one("pipeline_model_parallel_size"))
SEQUENCE_PARALLEL = _is_set("sequence_parallel")
EXPERTS = _is_set("num_experts")
EVALUATION = _is_set("eval_iters", "full_validation")
SAVE = _is_set("save")
BACKGROUND_SAVE = _is_set("async_save")
DELETION = _is_set("save_retain_interval")
PARALLEL_LOAD = _is_set("ckpt_fully_parallel_load")
# Megatron's FSDP brings the distributed optimizer with it.
DISTRIBUTED_OPTIMIZER = _is_set("use_distributed_optimizer", "use_megatron_fsdp")
