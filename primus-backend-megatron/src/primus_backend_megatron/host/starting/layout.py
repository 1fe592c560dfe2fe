"""Whether Megatron can divide a checkpoint over the ranks of this run, as megatron-core 0.19 does it.

Weights of ``torch_dist`` fit any layout, those of ``torch`` the one that they were saved in. The optimizer's state
depends on its kind; each rule here was seen to hold in real loads.
"""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_megatron.facts import Facts, optimizer_kind
from primus_backend_megatron.host.starting.subject import Subject
from primus_core.outcome import Finding

_NATIVE = {
    "tensor": "tensor_model_parallel_size",
    "pipeline": "pipeline_model_parallel_size",
    "expert": "expert_model_parallel_size",
}
_ANY_LAYOUT = ("fully_reshardable", "fully_sharded_model_space")
"""Kinds of a distributed optimizer that any tensor and pipeline size can load."""
_GATHERED = "dp_zero_gather_scatter"
_WEIGHTS_ALONE = "no_load_optim: true takes the weights alone"


def check_layout(subject: Subject, facts: Facts) -> tuple[Finding, ...]:
    """Whether this run's ranks find the weights at all."""
    changed = _changed(subject, facts, *_NATIVE) if facts.format == "torch" else {}
    return (_fixed(subject, changed),) if changed else ()


def check_optimizer(subject: Subject, facts: Facts) -> tuple[Finding, ...]:
    """Whether the optimizer's state can be loaded, where the run asks for it."""
    if not subject.takes_optimizer:
        return ()
    return (_no_optimizer(subject),) if facts.optimizer is False else tuple(_divided(subject, facts))


def _changed(subject: Subject, facts: Facts, *names: str) -> dict[str, tuple[int, int]]:
    """Sizes of the checkpoint and of the run, where they differ, by Megatron's names."""
    pairs = {
        _NATIVE[name]: (facts.layout[name], subject.case.size(_NATIVE[name])) for name in names if name in facts.layout
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _divided(subject: Subject, facts: Facts) -> Iterator[Finding]:
    ours, theirs = optimizer_kind(subject.case.values), facts.distributed_optimizer
    if theirs is None:
        return
    if bool(ours) != bool(theirs):
        yield _other_kind(subject, theirs)
        return
    groups = ("expert",) if not theirs or theirs in _ANY_LAYOUT else ("tensor", "pipeline", "expert")
    if facts.format == "torch_dist" and (changed := _changed(subject, facts, *groups)):
        yield _not_divisible(subject, theirs, changed)
    if theirs == _GATHERED and subject.case.on("ckpt_fully_parallel_load"):
        what = f"{subject.folder} cannot be loaded with ckpt_fully_parallel_load"
        why = f"its optimizer is kept as {_GATHERED}"
        remedy = "set ckpt_fully_parallel_load: false"
        yield subject.finding("checkpoint-optimizer", what, why, remedy, "ckpt_fully_parallel_load")


def _fixed(subject: Subject, changed: dict[str, tuple[int, int]]) -> Finding:
    what = f"{subject.folder} was saved for another layout"
    why = f"{_pairs(changed)}; the format torch has a file for each rank of the model"
    sizes = ", ".join(f"{name}: {theirs}" for name, (theirs, _) in changed.items())
    remedy = f"set {sizes}, or convert the checkpoint to torch_dist, which any layout can load"
    return subject.finding("checkpoint-layout", what, why, remedy, *changed)


def _no_optimizer(subject: Subject) -> Finding:
    what = f"{subject.folder} has no optimizer state to go on with"
    remedy = f"{_WEIGHTS_ALONE}; finetune: true also starts to count the iterations anew"
    return subject.finding("checkpoint-optimizer", what, "it was saved with no_save_optim", remedy, "no_load_optim")


def _other_kind(subject: Subject, theirs: str) -> Finding:
    what = f"{subject.folder} has the state of {_kind(theirs)}, and this run has {_kind('' if theirs else 'd')}"
    wanted = "true" if theirs else "false"
    remedy = f"set use_distributed_optimizer: {wanted}; {_WEIGHTS_ALONE}"
    why = "Megatron does not convert one into the other"
    return subject.finding("checkpoint-optimizer", what, why, remedy, "use_distributed_optimizer")


def _kind(sharding: str) -> str:
    return "a distributed optimizer" if sharding else "an optimizer that is not distributed"


def _not_divisible(subject: Subject, theirs: str, changed: dict[str, tuple[int, int]]) -> Finding:
    what = f"the optimizer state of {subject.folder} cannot be divided anew"
    sizes = ", ".join(f"{name}: {size}" for name, (size, _) in changed.items())
    kept = f"it is kept as {theirs}" if theirs else "its groups of parameters follow the experts' layout"
    remedy = f"set {sizes}; {_WEIGHTS_ALONE}"
    if theirs and _NATIVE["expert"] not in changed:
        remedy += "; a save with dist_ckpt_optim_fully_reshardable: true can be divided anew"
    return subject.finding("checkpoint-optimizer", what, f"{_pairs(changed)}; {kept}", remedy, *changed)


def _pairs(changed: dict[str, tuple[int, int]]) -> str:
    return ", ".join(
        f"{name} is {ours} here and {theirs} in the checkpoint" for name, (theirs, ours) in changed.items()
    )
