"""When TorchTitan changes the learning rate and when it evaluates: as every back end, or by its own habits."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_torchtitan.host.draft import Draft
from primus_backend_torchtitan.host.layout import replicas
from primus_core.errors import ConfigError, PrimusError
from primus_core.experiment import Value

NEVER = 1_000_000_000
"""An evaluation interval that no run reaches."""
_EVALUATIONS = 100
"""Megatron's own `eval_iters`."""

_KIND, _STYLE, _LOWEST = "lr_scheduler.kind", "lr_scheduler.decay_style", "lr_scheduler.min_lr"
_NATIVE_NAMES = ("lr_scheduler.decay_type", "lr_scheduler.decay_ratio", "lr_scheduler.min_lr_factor")
_NATIVE_WORDS: Mapping[Value, tuple[str, Value]] = {
    "cosine": ("lr_scheduler.decay_type", "cosine"),
    "linear": ("lr_scheduler.decay_type", "linear"),
    "constant": ("lr_scheduler.decay_ratio", 0.0),
}
"""How TorchTitan's own schedule says a form of the decay."""


def unspeakable(draft: Draft) -> list[PrimusError]:
    """Errors for a decay that TorchTitan's own schedule does not have."""
    if draft.aligned or not draft.is_set(_STYLE) or draft[_STYLE] in _NATIVE_WORDS:
        return []
    wish = draft.asked.wishes[_STYLE]
    return [
        ConfigError(
            f"`{wish.path}` is {wish.value}, which TorchTitan's own schedule does not have",
            where=str(wish.leaf.origin),
            why="semantics: native",
            remedy=f"set `semantics: aligned`, or one of: {', '.join(map(str, _NATIVE_WORDS))}",
        )
    ]


def adjust_schedule(draft: Draft) -> None:
    """The learning rate of Megatron's formula, unless TorchTitan's own schedule is asked for."""
    by_name = any(draft.is_set(name) for name in _NATIVE_NAMES)
    if by_name:
        draft.adjust_unset(_KIND, "native", "TorchTitan's own schedule is asked for, by its own names")
    elif not draft.aligned:
        draft.adjust_unset(_KIND, "native", "semantics: native")
    if draft[_KIND] != "native":
        return
    if not by_name:
        _say_natively(draft)
    for name in filter(draft.is_set, (_LOWEST, _STYLE)):
        draft.drop(name, "TorchTitan's own schedule is asked for" if by_name else "told to TorchTitan's own schedule")


def _say_natively(draft: Draft) -> None:
    """The lowest rate is a share of the highest one, and the form has another name."""
    lowest, highest = draft[_LOWEST], draft["optimizer.lr"]
    if draft.is_set(_LOWEST) and isinstance(lowest, float) and isinstance(highest, float) and highest > 0:
        draft.adjust("lr_scheduler.min_lr_factor", lowest / highest, "min_lr / lr")
    if draft.is_set(_STYLE) and draft[_STYLE] in _NATIVE_WORDS:
        native, word = _NATIVE_WORDS[draft[_STYLE]]
        draft.adjust(native, word, f"lr_decay_style: {draft[_STYLE]}")


def adjust_evaluation(draft: Draft) -> None:
    """Evaluation is on where `eval_interval` or `eval_iters` asks for it, as with Megatron."""
    steps = draft["validator.steps"]
    if draft.is_set("validator.steps") and (steps is None or steps == 0):
        draft.drop("validator.steps", "0: no evaluation")
        if draft.is_set("validator.freq"):
            draft.drop("validator.freq", "there is no evaluation")
        return
    if not draft.is_set("validator.steps") and not _is_portable(draft, "validator.freq"):
        return
    draft.adjust_unset("validator.enable", True, "evaluation is asked for")
    if draft.aligned:
        draft.adjust_unset("validator.freq", NEVER, "nobody set it: evaluation after the last iteration only")
    else:
        draft.adjust_unset("validator.kind", "native", "semantics: native")
    _count_local_batches(draft)


def _count_local_batches(draft: Draft) -> None:
    """`eval_iters` counts global batches, TorchTitan's steps count local ones."""
    batch, asked = draft.integer("training.global_batch_size"), draft.is_set("validator.steps")
    if asked and not _is_portable(draft, "validator.steps"):
        return
    local = draft.integer("training.local_batch_size") * replicas(draft)
    times = max(1, batch // local) if batch > 0 else 1
    number = draft.integer("validator.steps") if asked else _EVALUATIONS
    told = "" if asked else f"eval_iters is {_EVALUATIONS} where nobody sets it; "
    draft.adjust("validator.steps", number * times, f"{told}a global batch is {times} local batches of each rank")


def _is_portable(draft: Draft, native: str) -> bool:
    """Whether it was set by its portable name, to a value."""
    wish = draft.asked.wishes.get(native)
    return wish is not None and wish.path != native and wish.value is not None
