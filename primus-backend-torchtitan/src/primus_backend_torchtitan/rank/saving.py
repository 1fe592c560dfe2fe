"""Checkpoints: nothing is loaded that was not asked for or is damaged; none is whole before all its files are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import distributed
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.distributed_c10d import _get_default_store
from torchtitan.components.checkpoint import LR_SCHEDULER, MODEL, OPTIMIZER, CheckpointManager

from primus_backend_torchtitan.checkpoints import NAMING
from primus_backend_torchtitan.rank.describing import describe
from primus_backend_torchtitan.rank.session import current
from primus_core.checkpoints.retention import Retention
from primus_core.checkpoints.saver import Saver

T = TypeVar("T")

_ADAM_BYTES = 8
"""Two moments of float32."""


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
    _kept_saver: Saver | None = None

    def _load(self, step: int = -1) -> bool:
        """What was chosen before; else what TorchTitan calls the initial checkpoint, if it was given one."""
        session, own = current(), self.folder
        session.settle(Collectives())
        chosen = session.start.checkpoint
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

    def save(self, curr_step: int, last_step: bool = False) -> bool:
        """After every step; at the last one that a signal leaves, whatever the interval is."""
        session = current()
        session.stops = not last_step and session.rank.should_stop(curr_step, _get_default_store())
        saved: bool = super().save(curr_step, last_step)
        return saved

    def _should_save(self, curr_step: int, last_step: bool = False) -> bool:
        wanted: bool = super()._should_save(curr_step, last_step)
        return wanted or (current().stops and bool(self.enable) and not self.load_only)

    def _save(self, curr_step: int, last_step: bool = False) -> bool:
        self._mark_finished()
        if not self._should_save(curr_step, last_step):
            return False
        self.maybe_wait_for_saving()
        if not self._saver.begin(curr_step, last=last_step or current().stops, estimate=self._estimate):
            return False
        current().enter("save")
        with self._failing(curr_step):
            saved: bool = super()._save(curr_step, last_step)
        self._unfinished = curr_step
        if self.save_future is None:
            self._mark(curr_step, background=False)
        return saved

    def _wait_for_saving(self) -> None:
        if self._unfinished is None:
            super()._wait_for_saving()
            return
        with self._failing(self._unfinished):
            super()._wait_for_saving()
        self._mark(self._unfinished, background=True)

    def finish(self) -> None:
        """The run is over: wait until the last checkpoint is whole.

        Raises:
            RunError: it could not be completed.
        """
        self.maybe_wait_for_saving()
        if self._kept_saver:
            self._kept_saver.wait()

    def leave(self) -> None:
        """The run fails: give a checkpoint that is written, and not yet whole, some seconds."""
        if self._kept_saver:
            self._kept_saver.leave()

    def _mark_finished(self) -> None:
        """Mark what the background has completed: a rank's part ends after all parts and the metadata are written."""
        if self.save_future is not None and self.save_future.done():
            self.maybe_wait_for_saving()

    def _mark(self, iteration: int, *, background: bool) -> None:
        session, folder = current(), NAMING.folder(self.folder, iteration)
        self._unfinished = None
        sidecar = describe(session, folder, iteration) if session.rank.rank == 0 else None
        self._saver.finish(iteration, sidecar, background=background)

    @contextmanager
    def _failing(self, iteration: int) -> Iterator[None]:
        try:
            yield
        except (Exception, CheckpointException) as error:
            self._saver.failed(iteration, error)
            raise

    @property
    def _saver(self) -> Saver:
        """Made when it is first asked for: by then it is known what the run started from."""
        if self._kept_saver is None:
            session, keep = current(), self.keep_latest_k
            self._kept_saver = Saver(
                NAMING,
                self.folder,
                session.rank,
                Collectives(),
                retention=Retention.of(session.plan.settings.values) or Retention(last=keep or None),
                start=session.start,
                on_whole=session.note_checkpoint,
            )
        return self._kept_saver

    def _estimate(self) -> int:
        """Bytes of a checkpoint of the whole model, with the optimizer's two moments of each parameter."""
        layout = current().plan.translation
        stages = layout.layout.pipeline if layout else 1
        parameters = [parameter for part in self.states[MODEL].model for parameter in part.parameters()]
        return stages * sum(int(one.numel() * (one.element_size() + _ADAM_BYTES)) for one in parameters)

    def _purge_stale_checkpoints(self) -> None:
        """Not while the new one is not whole: the `Saver` deletes by the same rule, later."""


class Collectives:
    """`primus_core.checkpoints.settling.Peers` by torch."""

    def first(self, value: T) -> T:
        values = [value]
        distributed.broadcast_object_list(values, src=0)
        return values[0]

    def all(self, value: T) -> list[T]:
        values: list[Any] = [value] * distributed.get_world_size()
        distributed.all_gather_object(values, value)
        return values
