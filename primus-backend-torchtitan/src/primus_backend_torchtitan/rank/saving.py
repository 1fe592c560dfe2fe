"""Checkpoints: nothing is loaded that was not asked for."""

from __future__ import annotations

from dataclasses import dataclass

from torchtitan.components.checkpoint import CheckpointManager

from primus_backend_torchtitan.rank.session import current


class Checkpoints(CheckpointManager):
    """TorchTitan's own, which otherwise continues whatever it finds in the folder that it saves to."""

    @dataclass(kw_only=True, slots=True)
    class Config(CheckpointManager.Config):
        load: str | None = None
        """A folder of checkpoints to start from."""

    folder: str

    def _load(self, step: int = -1) -> bool:
        session = current()
        own: str = self.folder
        asked = session.native.get("checkpoint.load")
        if session.plan.settings.values.get("auto_continue_train") and self._find_load_step() != -1:
            return self._tell(super()._load(-1), own)
        self.folder = str(asked) if asked else f"{own}/nothing-to-load"
        try:
            return self._tell(super()._load(step), self.folder)
        finally:
            self.folder = own

    def _save(self, curr_step: int, last_step: bool = False) -> bool:
        saved: bool = super()._save(curr_step, last_step)
        if saved:
            current().checkpoint = self._create_checkpoint_id(curr_step)
        return saved

    def _tell(self, loaded: bool, folder: str) -> bool:
        if loaded:
            current().rank.notice("resume", f"from {folder}")
        return loaded
