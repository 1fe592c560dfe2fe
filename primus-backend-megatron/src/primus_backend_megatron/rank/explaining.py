"""What of Megatron's complaints users meet most often, in their own terms."""

from __future__ import annotations

from attrs import frozen

from primus_core.errors import RunError


@frozen(kw_only=True)
class _Known:
    """A complaint, and what to say instead of it."""

    fragment: str
    what: str
    where: str
    remedy: str


_KNOWN = (
    _Known(
        fragment="OptimizerParamScheduler",
        what="the learning-rate schedule is not the one that the checkpoint was trained with",
        where="train_iters, lr and the parameters of their schedule",
        remedy="Set override_opt_param_scheduler: true for the new schedule from here on, or "
        "use_checkpoint_opt_param_scheduler: true to finish the old one.",
    ),
    _Known(
        fragment="not supported for DistributedOptimizer",
        what="the checkpoint's distributed optimizer cannot be divided anew",
        where="tensor_model_parallel_size, pipeline_model_parallel_size",
        remedy="Continue in the layout of the checkpoint, and save there with dist_ckpt_optim_fully_reshardable: true "
        "what is to fit others; or set no_load_optim: true to begin with a fresh optimizer.",
    ),
    _Known(
        fragment="entries in state dict, but got",
        what="the checkpoint's optimizer is kept in other parts than this layout needs",
        where="expert_model_parallel_size",
        remedy="Megatron keeps the experts' part apart where expert_model_parallel_size is more than 1: continue as "
        "the checkpoint was trained, or set no_load_optim: true to begin with a fresh optimizer.",
    ),
)


def explained(error: Exception) -> Exception:
    """A `RunError` with a remedy for a complaint that is known here; any other as it is."""
    for known in _KNOWN:
        if known.fragment in str(error):
            return RunError(known.what, where=known.where, why=str(error), remedy=known.remedy)
    return error
