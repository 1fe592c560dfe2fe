"""What an export takes of a run beside its checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from primus_core.plan import RunPlan
from primus_core.weights.folder import PARAMETER
from primus_core.weights.huggingface import CONFIG

_SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id")


@frozen(kw_only=True)
class Origin:
    """A run, and where it is now."""

    folder: Path
    plan: RunPlan

    def checkpoints(self, saved: str | None) -> str:
        """Where its checkpoints are, also when the experiment's folder was moved since.

        Args:
            saved: where it saved them.
        """
        here = self.folder.parent.parent / "checkpoints"
        return saved if saved and (os.path.isdir(saved) or not here.is_dir()) else str(here)

    def tokenizer(self) -> str | None:
        """Its tokenizer's file or folder, where that is local."""
        value = self._value("tokenizer_model")
        path = os.path.join(self.plan.job.workdir, value) if value else ""
        return path if path and os.path.exists(path) else None

    def special_tokens(self) -> Mapping[str, object]:
        """Ids by the names of a config.json: those of the model that it began with, else of its tokenizer."""
        folder = self._value(PARAMETER)
        begun = _object(Path(self.plan.job.workdir, folder, CONFIG)) if folder else {}
        known = {name: begun[name] for name in _SPECIAL if begun.get(name) is not None}
        tokenizer = _object(self.folder / "prepare/data.json").get("tokenizer")
        eod = tokenizer.get("eod") if isinstance(tokenizer, dict) else None
        return known or ({"eos_token_id": eod} if isinstance(eod, int) else {})

    def python(self, other: str) -> str:
        """The interpreter of its ranks, where it is on this host; else another."""
        own = self.plan.job.python
        return own if os.access(own, os.X_OK) else other

    def _value(self, name: str) -> str:
        if self.plan.experiment is None or self.plan.module is None:
            return ""
        leaf = self.plan.experiment.modules[self.plan.module].params.get(name)
        return leaf.value if leaf is not None and isinstance(leaf.value, str) else ""


def _object(path: Path) -> Mapping[str, object]:
    """A JSON object; empty where there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
