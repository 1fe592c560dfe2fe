"""One checkpoint, and the run that would start from it."""

from __future__ import annotations

from attrs import frozen

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.starting.told import finding
from primus_core.checkpoints.choosing import Choice
from primus_core.outcome import Finding, Severity


@frozen(kw_only=True)
class Subject:
    """What is judged."""

    case: Case
    choice: Choice
    folder: str
    release: bool = False
    """A published checkpoint: weights only."""

    @property
    def key(self) -> str:
        """Megatron's name of the parameter that chose the checkpoint."""
        if self.choice.continues:
            return "save"
        return "pretrained_checkpoint" if self.choice.pretrained else "load"

    @property
    def takes_weights_alone(self) -> bool:
        """Optimizer, iteration and data position start anew."""
        return self.choice.pretrained or self.release or (not self.choice.continues and self.case.on("finetune"))

    @property
    def takes_optimizer(self) -> bool:
        return not self.takes_weights_alone and (self.choice.continues or not self.case.on("no_load_optim"))

    def finding(
        self, check: str, summary: str, why: str, remedy: str, *keys: str, severity: Severity = "error"
    ) -> Finding:
        """A finding at the line that chose the checkpoint, with the parameters concerned."""
        return finding(self.case, check, summary, (self.key, *keys), remedy, why=why, severity=severity)
