"""One row of metrics for each iteration, measured around Megatron's `train_step`."""

from __future__ import annotations

import functools
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from primus_backend_megatron.host.shape import shape_of_plan
from primus_backend_megatron.rank.session import CURRENT, Session
from primus_core.hardware import peak_flops
from primus_core.projection.flops import flops_of

_LOSS = "lm loss"
_LOSSES, _GRAD_NORM = 0, 5
"""Places in what `train_step` returns."""


def measured_train_step(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory of the patch: the same step, and a row of metrics for it.

    The learning rate is read before the step, because Megatron's own log shows the next step's.
    """

    @functools.wraps(original)
    def train_step(
        forward_step: object, data: object, model: object, optimizer: Any, *rest: Any, **options: Any
    ) -> Any:
        session = CURRENT.get(None)
        if session is None:
            return original(forward_step, data, model, optimizer, *rest, **options)
        session.enter("train")
        rate = learning_rate(optimizer)
        start = time.perf_counter()
        result = original(forward_step, data, model, optimizer, *rest, **options)
        report(session, result, rate, start)
        return result

    return train_step


def report(session: Session, result: Sequence[Any], rate: float | None, start: float) -> None:
    """Write the row of one finished step."""
    from megatron.training import get_args

    args = get_args()
    losses = result[_LOSSES]
    # `item` waits for the device, so the clock is read after it.
    session.loss = float(losses[_LOSS].item()) if _LOSS in losses else None
    session.iteration, session.trained = args.curr_iteration + 1, True
    seconds = time.perf_counter() - start
    grad_norm = result[_GRAD_NORM]
    session.rank.metrics(
        {
            "time": time.time(),
            "run_id": session.plan.run_id,
            "rank": session.rank.rank,
            "iteration": session.iteration,
            "train_iters": args.train_iters,
            "loss": session.loss,
            "lr": rate,
            "grad_norm": None if grad_norm is None else float(grad_norm),
            "step_seconds": seconds,
            "memory_bytes": peak_memory(session.plan.target.accelerator),
            **throughput(session, args, seconds),
        }
    )


def throughput(session: Session, args: Namespace, seconds: float) -> dict[str, float | int | None]:
    """Tokens and floating-point operations of the step that just ended.

    Operations are those that the model needs, of causal attention the half (see `primus_core.projection.flops`).
    """
    from megatron.core.num_microbatches_calculator import get_num_microbatches

    samples = args.micro_batch_size * args.data_parallel_size * get_num_microbatches()
    flops = flops_per_token(session)
    rate = None if flops is None else flops * samples * args.seq_length / (seconds * args.world_size)
    peak = peak_rate(session.plan.target.accelerator, args)
    return {
        "tokens": (args.consumed_train_samples + samples) * args.seq_length,
        "tokens_per_second": samples * args.seq_length / seconds,
        "tflops": None if rate is None else rate / 1e12,
        "mfu": rate / peak if rate and peak else None,
    }


def flops_per_token(session: Session) -> float | None:
    """Of the plan's model, counted once; None for a plan without one."""
    if session.flops is None:
        shape = shape_of_plan(session.plan)
        session.flops = flops_of(shape).model if shape is not None else None
    return session.flops


def peak_rate(accelerator: str, args: Namespace) -> float | None:
    """FLOP/s of this rank's device in the precision of the run; None on a CPU and on a device without a known peak."""
    if accelerator == "cpu":
        return None
    import torch

    return peak_flops(torch.cuda.get_device_name(), "bf16" if args.bf16 or args.fp16 else "fp32")


def learning_rate(optimizer: Any) -> float | None:
    """Of the parameter groups that follow the schedule; None on a rank without parameters."""
    from megatron.core.optimizer_param_scheduler import get_canonical_lr_for_logging

    rate = get_canonical_lr_for_logging(optimizer.param_groups) if optimizer is not None else None
    return None if rate is None else float(rate)


def peak_memory(accelerator: str) -> int:
    """Bytes: the device's largest allocation so far; on a CPU the process's largest resident set."""
    if accelerator == "cpu":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    import torch

    return int(torch.cuda.max_memory_allocated())
