"""Length of training, learning rate, precision, optimizer and evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.split import parse_split
from primus_core.outcome import Finding
from primus_core.planning.nearest import nearest_multiples

_MICRO = "micro_batch_size"


def check_schedule(case: Case) -> Iterator[Finding]:
    """Combinations that Megatron asserts against once it runs."""
    yield from _unit(case)
    yield from _learning_rate(case)
    yield from _precision(case)
    yield from _overlap(case)
    yield from _evaluation(case)


def _unit(case: Case) -> Iterator[Finding]:
    """A run counts iterations or samples, never both."""
    if case.on("train_iters") and case.on("train_samples"):
        keys = ("train_iters", "train_samples")
        yield case.error("schedule", "train_iters and train_samples are both set", keys, "keep one of them")
        return
    counted, other = ("iters", "samples") if case.on("train_iters") else ("samples", "iters")
    wrong = [name for name in (f"lr_decay_{other}", f"lr_warmup_{other}") if case.on(name)]
    if wrong:
        yield case.error(
            "schedule",
            f"{' and '.join(wrong)} in a run that counts {counted}",
            (f"train_{counted}", *wrong),
            f"use {' and '.join(name.replace(other, counted) for name in wrong)}",
        )
    if case.values["lr_warmup_fraction"] is not None and case.on(f"lr_warmup_{counted}"):
        keys = ("lr_warmup_fraction", f"lr_warmup_{counted}")
        yield case.error("schedule", f"{keys[0]} and {keys[1]} are both set", keys, "keep one of them")


def _learning_rate(case: Case) -> Iterator[Finding]:
    counted = "iters" if case.on("train_iters") else "samples"
    decay = f"lr_decay_{counted}" if case.values[f"lr_decay_{counted}"] is not None else f"train_{counted}"
    warmup = f"lr_warmup_{counted}"
    if case.size(warmup, 0) >= case.size(decay):
        yield case.error(
            "schedule",
            f"warm-up takes {case.size(warmup, 0)} {counted}, the whole schedule {case.size(decay)}",
            (warmup, decay),
            f"set {warmup} to {case.size(decay) - 1} or less",
        )
    if case.number("min_lr") > case.number("lr"):
        yield case.error("schedule", "min_lr is more than lr", ("min_lr", "lr"), "set min_lr to lr or less")


def _precision(case: Case) -> Iterator[Finding]:
    for one, other in (("fp16", "bf16"), ("fp8", "fp4")):
        if case.on(one) and case.on(other):
            yield case.error("precision", f"{one} and {other} are both set", (one, other), "keep one of them")


def _overlap(case: Case) -> Iterator[Finding]:
    if not case.on("overlap_param_gather"):
        return
    for needed in ("use_distributed_optimizer", "overlap_grad_reduce"):
        if not case.on(needed) and not (needed == "use_distributed_optimizer" and case.on("use_megatron_fsdp")):
            yield case.error(
                "overlap",
                f"overlap_param_gather works with {needed} only",
                ("overlap_param_gather", needed),
                f"set {needed}: true, or overlap_param_gather: false",
            )


def _evaluation(case: Case) -> Iterator[Finding]:
    """Batches that replicas can share; and Megatron silently leaves evaluation out where there is no data for it."""
    batch, micro = case.values["eval_global_batch_size"], case.size("eval_micro_batch_size", case.size(_MICRO))
    step = case.samples_at_once // case.size(_MICRO) * micro
    if isinstance(batch, int) and batch % step:
        yield case.error(
            "evaluation",
            f"eval_global_batch_size {batch} is no multiple of micro batch x data parallel = {micro} x {step // micro}",
            ("eval_global_batch_size", "eval_micro_batch_size", _MICRO),
            f"set eval_global_batch_size to {nearest_multiples(batch, step)}",
        )
    split = case.values["split"]
    if not case.on("eval_iters") or not isinstance(split, str):
        return
    _, valid, _ = parse_split(split)
    if valid == 0:
        yield case.finding(
            "warning",
            "evaluation",
            "evaluation is asked for, and no data is left for it",
            ("eval_interval", "eval_iters", "split"),
            "give validation a share in split, or name valid_data_path",
        )
