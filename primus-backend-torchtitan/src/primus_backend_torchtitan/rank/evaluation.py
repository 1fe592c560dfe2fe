"""Evaluation at the iterations at which Megatron evaluates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchtitan.components.validate import Validator

from primus_backend_torchtitan.rank.session import current


class Evaluation(Validator):
    """TorchTitan's own, except that the first iteration is none to evaluate after, and the last one is."""

    @dataclass(kw_only=True, slots=True)
    class Config(Validator.Config):
        pass

    def should_validate(self, step: int) -> bool:
        return step % self.config.freq == 0 or step == current().native["training.steps"]

    def validate(self, model_parts: Any, step: int) -> None:
        current().enter("evaluate")
        super().validate(model_parts, step)
