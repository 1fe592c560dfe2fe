"""Checkpoints: nothing is loaded that was not asked for, and none is whole before the last of its files is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import distributed
from torchtitan.components.checkpoint import LR_SCHEDULER, OPTIMIZER, CheckpointManager

from primus_backend_torchtitan.checkpoints import NAMING
from primus_backend_torchtitan.rank.describing import describe
from primus_backend_torchtitan.rank.session import current
from primus_core.checkpoints.sidecar import as_mapping


class Checkpoints(CheckpointManager):
    """TorchTitan's own, which otherwise continues whatever it finds in the folder that it saves to."""

    @dataclass(kw_only=True, slots=True)
    class Config(CheckpointManager.Config):
        load: str | None = None
        """A folder of checkpoints to start from; `rank.resume` reads it."""
        load_hf: str | None = None
        """A Hugging Face folder to take the weights from; `rank.resume` reads it."""

    folder: str
    _unfinished: int | None = None
    """Iteration whose checkpoint is still being written in the background."""

    def _load(self, step: int = -1) -> bool:
        """What was chosen before; else what TorchTitan calls the initial checkpoint, if it was given one."""
        session, own = current(), self.folder
        chosen = session.start
        self.folder = str(chosen.folder.parent) if chosen else f"{own}/nothing-to-load"
        settings = [dict(group) for group in self._groups()]
        try:
            loaded: bool = super()._load(chosen.iteration if chosen else -1)
        finally:
            self.folder = own
        self._set_again(settings)
        return loaded

    def _groups(self) -> Iterator[dict[str, Any]]:
        for optimizer in self.states[OPTIMIZER]:
            yield from optimizer.param_groups

    def _set_again(self, settings: Sequence[Mapping[str, Any]]) -> None:
        """Weight decay, betas and their like, as this run asks; TorchTitan takes them from the checkpoint, unsaid."""
        for group, asked in zip(self._groups(), settings, strict=True):
            group.update({name: value for name, value in asked.items() if name != "params"})
        for scheduler in self.states[LR_SCHEDULER].schedulers:
            for group, rate in zip(scheduler.optimizer.param_groups, scheduler.get_last_lr(), strict=True):
                group["lr"] = rate

    def _save(self, curr_step: int, last_step: bool = False) -> bool:
        self._mark_finished()
        if not self._should_save(curr_step, last_step):
            return False
        self.maybe_wait_for_saving()
        session = current()
        session.enter("save")
        if session.rank.rank == 0:
            NAMING.begin_saving(self.folder, curr_step)
        distributed.barrier()
        saved: bool = super()._save(curr_step, last_step)
        self._unfinished = curr_step
        if self.save_future is None:
            self._mark(curr_step)
        return saved

    def _wait_for_saving(self) -> None:
        super()._wait_for_saving()
        if self._unfinished is not None:
            self._mark(self._unfinished)

    def _mark_finished(self) -> None:
        """Mark what the background has completed: a rank's part ends after all parts and the metadata are written."""
        if self.save_future is not None and self.save_future.done():
            self.maybe_wait_for_saving()

    def _mark(self, iteration: int) -> None:
        """Rank 0 marks; the others only note the folder."""
        session, folder = current(), NAMING.folder(self.folder, iteration)
        if session.rank.rank == 0:
            NAMING.finish_saving(self.folder, iteration, as_mapping(describe(session, folder, iteration)))
            self._delete_old()
        self._unfinished = None
        session.checkpoint = str(folder)
        session.rank.log("info", "checkpoint complete", iteration=iteration, folder=session.checkpoint)

    def _purge_stale_checkpoints(self) -> None:
        """Not while the new one is not whole: see `_delete_old`."""

    def _delete_old(self) -> None:
        """Leave the latest ones that Primus wrote, where `keep_latest_k` asks for that; a marker goes before files."""
        whole = NAMING.marked(self.folder)
        while self.keep_latest_k and len(whole) > self.keep_latest_k:
            oldest = min(whole, key=lambda item: (item.written, item.iteration))
            whole.remove(oldest)
            NAMING.begin_deleting(self.folder, oldest.iteration)
            self.purge_queue.put(str(oldest.folder))
