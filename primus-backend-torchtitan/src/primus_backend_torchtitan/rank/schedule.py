"""The learning rate, by Megatron's formula."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attrs import frozen
from torchtitan.components.optimizer import LRSchedulersContainer

from primus_backend_torchtitan.rank.session import current


@frozen(kw_only=True)
class Curve:
    """Learning rate over the optimizer steps that are done: `OptimizerParamScheduler.get_lr` of Megatron-LM.

    TorchTitan's own schedule is one step ahead of it during the warm-up, and ends the decay one step later.
    """

    highest: float
    lowest: float
    warmup: int
    length: int
    """Steps of warm-up and decay."""
    style: str

    def rate(self, done: int) -> float:
        """The learning rate of the step after ``done`` steps."""
        if self.warmup and done <= self.warmup:
            return self.highest * done / self.warmup
        if self.style == "constant":
            return self.highest
        if done > self.length:
            return self.lowest
        if self.style == "inverse-square-root":
            return max(self.lowest, self.highest * math.sqrt(max(self.warmup, 1) / max(done, 1)))
        past = (done - self.warmup) / (self.length - self.warmup)
        share = 1.0 - past if self.style == "linear" else 0.5 * (math.cos(math.pi * past) + 1.0)
        return self.lowest + share * (self.highest - self.lowest)

    def factor(self, done: int) -> float:
        """The same as a share of the highest one."""
        return self.rate(done) / self.highest if self.highest else 0.0


class MegatronSchedule(LRSchedulersContainer):
    """TorchTitan's container of schedulers, with Megatron's formula."""

    @dataclass(kw_only=True, slots=True)
    class Config(LRSchedulersContainer.Config):
        decay_style: str = "cosine"
        min_lr: float = 0.0

        def build(self, *, optimizers: Any, training_steps: int) -> LRSchedulersContainer:
            curve = Curve(
                highest=highest_rate(optimizers),
                lowest=self.min_lr,
                warmup=self.warmup_steps,
                length=training_steps if self.total_steps is None else self.total_steps,
                style=self.decay_style,
            )
            factor: Callable[[int], float] = curve.factor
            return MegatronSchedule(optimizers, factor)


def highest_rate(optimizers: Any) -> float:
    """The rate that was asked for; with groups of one's own, the first group's."""
    asked = current().native.get("optimizer.lr")
    return float(asked) if isinstance(asked, (int, float)) else float(next(iter(optimizers)).param_groups[0]["lr"])
