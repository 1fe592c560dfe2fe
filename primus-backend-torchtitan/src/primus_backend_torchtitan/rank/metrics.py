"""One row of metrics for each iteration, with the names and units of every back end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from torchtitan.components.metrics import MetricsProcessor

from primus_backend_torchtitan.host.schedules import schedule_of
from primus_backend_torchtitan.host.shape import shape_of_plan
from primus_backend_torchtitan.rank.session import current
from primus_core.hardware import peak_flops
from primus_core.projection.flops import flops_of


class RunMetrics(MetricsProcessor):
    """TorchTitan's metrics as they are, every `log_freq` steps, and beside them a row of our own for every step."""

    @dataclass(kw_only=True, slots=True)
    class Config(MetricsProcessor.Config):
        pass

    def __init__(self, config: Config, **options: Any) -> None:
        super().__init__(config, **options)
        self._session = current()
        self._schedule = str(options.get("pp_schedule", ""))
        self._has_loss = has_loss(self.parallel_dims, self._schedule)
        self._tokens = tokens_per_step(self._session)
        self._flops = flops_per_token(self._session)
        self._begun = time.perf_counter()
        self._peak_memory = 0

    def should_log(self, step: int) -> bool:
        """TorchTitan asks before it reads a step's data: the step begins here, and its loss is always wanted."""
        self._session.enter("train")
        self._begun = time.perf_counter()
        return True

    def log(
        self,
        step: int,
        global_avg_loss: float,
        global_max_loss: float,
        grad_norm: float,
        extra_metrics: dict[str, Any] | None = None,
    ) -> None:
        seconds = time.perf_counter() - self._begun
        extra = extra_metrics or {}
        session, told = self._session, super().should_log(step)
        loss = self._shared(global_avg_loss) if told or self._is_folded else global_avg_loss
        shown = self._has_loss or (self._is_folded and self._is_in_last_group)
        session.iteration, session.loss = step, loss if shown else None
        session.rank.metrics(
            {
                "iteration": step,
                "train_iters": session.native["training.steps"],
                "loss": session.loss,
                "lr": next((value for name, value in extra.items() if name.startswith("lr/")), None),
                "grad_norm": grad_norm,
                "step_seconds": seconds,
                "memory_bytes": self._memory(),
                **self._throughput(step, seconds),
            }
        )
        if told:
            super().log(step, loss, global_max_loss if self._has_loss else loss, grad_norm, extra_metrics)

    def log_validation(self, loss: float, step: int, extra_metrics: dict[str, Any] | None = None) -> None:
        loss = self._shared(loss)
        when = f"iteration {step}{self._session.evaluated_where}"
        self._session.rank.notice("validation", f"loss {loss:#.4g} at {when}")
        super().log_validation(loss, step, extra_metrics)

    def _shared(self, loss: float) -> float:
        """The loss on every rank: in a pipeline the others have -1 in its place."""
        if not self.parallel_dims.pp_enabled:
            return loss
        import torch
        from torch import distributed

        told = torch.tensor(loss, dtype=torch.float64, device=self.device_memory_monitor.device)
        distributed.broadcast(told, src=0 if self._is_folded else self._last_group)
        return float(told.item())

    @property
    def _is_folded(self) -> bool:
        """A pipeline that ends on the ranks where it begins."""
        known = schedule_of(self._schedule) if self.parallel_dims.pp_enabled else None
        return known is not None and known.folded

    @property
    def _last_group(self) -> int:
        """The first of the ranks at the pipeline's far end, whose row the console shows."""
        stages: int = self.parallel_dims.pp
        return int(self.parallel_dims.world_size // stages * (stages - 1))

    @property
    def _is_in_last_group(self) -> bool:
        return self._session.rank.rank >= self._last_group

    def _throughput(self, step: int, seconds: float) -> dict[str, float | int | None]:
        """Tokens and floating-point operations of the step that just ended."""
        shared = seconds * self._session.plan.target.world_size
        rate = None if self._flops is None else self._flops * self._tokens / shared
        return {
            "tokens": step * self._tokens,
            "tokens_per_second": self._tokens / seconds,
            "tflops": None if rate is None else rate / 1e12,
            "mfu": None if rate is None else self._utilization(rate),
        }

    def _utilization(self, rate: float) -> float | None:
        """None on a CPU and on a device without a known peak."""
        if self._session.plan.target.accelerator == "cpu" or self.has_quantization:
            return None
        reduced = self._session.native.get("training.mixed_precision_param") == "bfloat16"
        peak = peak_flops(self.device_memory_monitor.device_name, "bf16" if reduced else "fp32")
        return rate / peak if peak else None

    def _memory(self) -> int:
        """Bytes: the device's largest allocation so far; TorchTitan begins anew with each of its own lines."""
        if self._session.plan.target.accelerator == "cpu":
            import resource

            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        import torch

        self._peak_memory = max(self._peak_memory, int(torch.cuda.max_memory_allocated()))
        return self._peak_memory


def has_loss(parallel: Any, schedule: str) -> bool:
    """Whether this rank computes the loss: all do without a pipeline, else those of its last stage."""
    if not parallel.pp_enabled:
        return True
    known = schedule_of(schedule)
    stage = parallel.get_mesh("pp").get_local_rank()
    return bool(stage == (0 if known is not None and known.folded else parallel.pp - 1))


def tokens_per_step(session: Any) -> int:
    """Of all ranks together."""
    from primus_backend_torchtitan.host.schema import schema_for
    from primus_backend_torchtitan.rank.samples import global_batch

    values = {**schema_for(session.plan.target.library_version).defaults, **session.native}
    return int(global_batch(values, session.plan.target.world_size) * values["training.seq_len"])


def flops_per_token(session: Any) -> float | None:
    """That the plan's model needs, of causal attention the half, as Megatron counts; None for a plan without one."""
    shape = shape_of_plan(session.plan)
    return None if shape is None else flops_of(shape).model
