"""What of an experiment makes a patch needed that other experiments do without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import frozen

from primus_core.experiment import Value


class Values(Protocol):
    """Megatron's parameters as they will be: set by the experiment, or Megatron's defaults."""

    def __getitem__(self, name: str) -> Value: ...


@frozen
class Need:
    """A condition on Megatron's parameters."""

    words: str
    """For people, after "needed where"."""
    met: Callable[[Values], bool]

    def __call__(self, values: Values) -> bool:
        """Whether these parameters need the patch. What a checkpoint's own parameters will say is not known yet."""
        return bool(values["use_checkpoint_args"]) or self.met(values)


def _is_set(*names: str) -> Need:
    """Any of the parameters is neither null, false nor zero."""
    return Need(" or ".join(f"{name} is set" for name in names), lambda values: any(values[name] for name in names))


def _above_one(name: str) -> Need:
    def met(values: Values) -> bool:
        value = values[name]
        return isinstance(value, int) and value > 1

    return Need(f"{name} > 1", met)


PIPELINE = _above_one("pipeline_model_parallel_size")
SEQUENCE_PARALLEL = _is_set("sequence_parallel")
EXPERTS = _is_set("num_experts")
EVALUATION = _is_set("eval_iters", "full_validation")
SAVE = _is_set("save")
BACKGROUND_SAVE = _is_set("async_save")
DELETION = _is_set("save_retain_interval")
PARALLEL_LOAD = _is_set("ckpt_fully_parallel_load")
# Megatron's FSDP brings the distributed optimizer with it.
DISTRIBUTED_OPTIMIZER = _is_set("use_distributed_optimizer", "use_megatron_fsdp")
