"""Faults of `DistributedOptimizer`, most with torch's Adam, which Megatron uses without Apex and Transformer Engine."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

Function = Callable[..., Any]


def state_before_loading(original: Function) -> Function:
    """Factory for `sharded_state_dict`: a fresh optimizer gets its state before a checkpoint is loaded into it.

    Torch's Adam has none before its first step, and Megatron insists on exactly one step count.
    """

    @functools.wraps(original)
    def sharded_state_dict(self: Any, model: Any = None, is_loading: bool = False, *args: Any, **options: Any) -> Any:
        if is_loading and _torch_adam() and not self.optimizer.state:
            self._init_optimizer_states_with_dummy_values()
        return original(self, {} if model is None else model, is_loading, *args, **options)

    return sharded_state_dict


def own_step_counts(original: Function) -> Function:
    """Factory for `load_state_dict`: a step count for each parameter.

    Megatron puts one and the same tensor into all of them, and each parameter's step then counts it up once more.
    """

    @functools.wraps(original)
    def load_state_dict(self: Any, state: Any) -> None:
        original(self, state)
        for parameter_state in self.optimizer.state.values():
            if _torch_adam() and isinstance(parameter_state.get("step"), torch.Tensor):
                parameter_state["step"] = parameter_state["step"].clone()

    return load_state_dict


def restore_states(original: Function) -> Function:
    """Factory for `_set_main_param_and_optimizer_states`: leaves the step count alone.

    It was restored from the parameter groups before. Here Megatron would overwrite it with the count of the state
    that was made before loading, or, in another format, fail because the file has none. And in fp32 the main
    parameters are views of the model's, which torch lets nobody write to while it records gradients.
    """

    @functools.wraps(original)
    def set_states(self: Any, parameter: Any, tensors: Mapping[str, Any]) -> Any:
        if _torch_adam():
            group, place = self.model_param_group_index_map[parameter]
            main = self.optimizer.param_groups[group]["params"][place]
            tensors = {**tensors, "step": self.optimizer.state[main].get("step")}
        with torch.no_grad():
            return original(self, parameter, tensors)

    return set_states


def _torch_adam() -> bool:
    from megatron.core.optimizer import distrib_optimizer

    return not distrib_optimizer.HAVE_APEX_OR_TE
