"""Evaluation at the iterations at which Megatron evaluates, on the samples on which it evaluates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torchtitan.components.validate import Validator

from primus_backend_torchtitan.rank.session import current


class Evaluation(Validator):
    """On new samples after every interval, and at the end once more; then on the test data.

    TorchTitan itself evaluates after the first iteration too, always on the same samples, and has no test data.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(Validator.Config):
        pass

    dl_config: Any

    def should_validate(self, step: int) -> bool:
        return step % self.config.freq == 0 or step == current().native["training.steps"]

    def validate(self, model_parts: Any, step: int) -> None:
        if current().samples.get("valid") is None:
            return
        earlier, since = divmod(step, self.config.freq)
        if not since:
            self._evaluate(model_parts, step, "valid", earlier - 1, "")
        if step == current().native["training.steps"]:
            self._evaluate(model_parts, step, "valid", earlier, " on validation set")
            self._evaluate(model_parts, step, "test", 0, " on test set")

    def _evaluate(self, model_parts: Any, step: int, purpose: str, earlier: int, where: str) -> None:
        """On the samples that follow those of ``earlier`` evaluations, which need not have been of this process."""
        session = current()
        if session.samples.get(purpose) is None:
            return
        session.enter("evaluate")
        first = earlier * self.config.steps * self.local_batch_size * self.dp_world_size
        self.dl_config = replace(self.dl_config, purpose=purpose, first=first if self.config.steps > 0 else 0)
        session.evaluated_where = where
        super().validate(model_parts, step)
