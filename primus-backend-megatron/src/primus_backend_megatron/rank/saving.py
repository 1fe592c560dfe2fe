"""Patches of Megatron's checkpointing, so that a half-written or damaged checkpoint is never taken for whole."""

from __future__ import annotations

import functools
import os
import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from primus_backend_megatron.checkpoints import NAMING
from primus_backend_megatron.rank.describing import describe, trained_tokens
from primus_backend_megatron.rank.session import CURRENT, Session
from primus_core.checkpoints.contents import writer
from primus_core.checkpoints.retention import Retention
from primus_core.checkpoints.saver import Saver

T = TypeVar("T")

_ADAM_BYTES = 8
"""Two moments of float32 for each parameter."""
_MASTER_BYTES = 4


def marking_save(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory: `save_checkpoint` that announces a checkpoint before it is written and marks it when it is whole."""

    @functools.wraps(original)
    def save_checkpoint(iteration: int, model: Any, *rest: Any, **options: Any) -> Any:
        session = CURRENT.get(None)
        if session is None or options.get("non_persistent_ckpt"):
            return original(iteration, model, *rest, **options)
        if not session.trained and NAMING.is_whole(_args().save, iteration):
            # A run that had nothing left to train: what was loaded is not put at risk to write it again.
            session.rank.log("info", "checkpoint is there already", iteration=iteration)
            return None
        saver, last = saver_of(session), session.stops or iteration >= (_args().train_iters or 0)
        if not saver.begin(iteration, last=last, estimate=functools.partial(_estimate, model)):
            return None
        session.enter("save")
        session.saved_tokens[iteration] = trained_tokens(_args())
        try:
            result = original(iteration, model, *rest, **options)
        except failures() as error:
            saver.failed(iteration, error)
            raise
        session.saved = iteration
        session.unfinished_saves.append(iteration)
        if not _args().async_save:
            _finish(session)
        return result

    return save_checkpoint


def marking_finalize(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory: `maybe_finalize_async_save` that marks the checkpoints that the background has completed."""

    @functools.wraps(original)
    def maybe_finalize_async_save(*args: Any, **options: Any) -> Any:
        from megatron.training.async_utils import is_empty_async_queue

        session = CURRENT.get(None)
        unfinished = session.unfinished_saves if session is not None else []
        try:
            result = original(*args, **options)
        except failures() as error:
            if session is not None and unfinished:
                saver_of(session).failed(unfinished[0], error)
            raise
        if session is not None and unfinished and is_empty_async_queue():
            _finish(session, background=True)
        return result

    return maybe_finalize_async_save


def keeping(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory: Megatron's deletion of the checkpoint before the last one, which does nothing.

    Megatron deletes before the last one is whole. `primus_core.checkpoints.saver` deletes by the same rule, later.
    """

    @functools.wraps(original)
    def delete(*args: Any, **options: Any) -> None:
        return None

    return delete


def queue_without_process(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory: `get_write_results_queue`, which else starts a process to hold a queue.

    Only a save in the background needs one that other processes can reach.
    """
    local: queue.Queue[object] = queue.Queue()

    @functools.wraps(original)
    def get_write_results_queue(*args: Any, **options: Any) -> Any:
        return original(*args, **options) if _args().async_save else local

    return get_write_results_queue


def failures() -> tuple[type[BaseException], ...]:
    """What a save may raise: torch's own exception for a failure of any rank is no `Exception`."""
    from torch.distributed.checkpoint.api import CheckpointException

    return Exception, CheckpointException


class Collectives:
    """`primus_core.checkpoints.settling.Peers` by torch."""

    def first(self, value: T) -> T:
        from torch import distributed

        values = [value]
        if distributed.is_initialized():
            distributed.broadcast_object_list(values, src=0)
        return values[0]

    def all(self, value: T) -> list[T]:
        from torch import distributed

        values: list[Any] = [value]
        if distributed.is_initialized():
            values *= distributed.get_world_size()
            distributed.all_gather_object(values, value)
        return values


def saver_of(session: Session) -> Saver:
    """The run's own, made when it is first asked for: by then it is known what the run started from."""
    if session.saver is None:
        session.saver = Saver(
            NAMING,
            _args().save,
            session.rank,
            Collectives(),
            retention=_retention(session),
            start=session.start,
            on_whole=functools.partial(_note, session),
            wrote=functools.partial(_wrote, session.rank.rank),
        )
    return session.saver


def _retention(session: Session) -> Retention:
    """As core's parameters say, else as Megatron's ``save_retain_interval``: the newest and every n-th iteration."""
    asked = Retention.of(session.plan.settings.values)
    interval = _args().save_retain_interval
    return asked or (Retention(every=interval) if interval else Retention())


def _wrote(rank: int, name: str) -> bool:
    """In Megatron's old format the first data-parallel rank of each part of the model writes that part's folder."""
    from megatron.core import mpu
    from megatron.training.checkpointing import get_checkpoint_name

    if (by := writer(name)) is not None:
        return by == rank
    if _args().ckpt_format != "torch" or mpu.get_data_parallel_rank() != 0:
        return False
    own = Path(get_checkpoint_name("", 0)).parent.name
    return name.split(os.sep)[0] == own


def _note(session: Session, folder: Path) -> None:
    session.checkpoint = str(folder)


def _estimate(model: Any) -> int:
    """Bytes of a checkpoint of the whole model: weights, and the optimizer's state where it is saved."""
    args, copies = _args(), _args().tensor_model_parallel_size * _args().pipeline_model_parallel_size
    total = 0
    for chunk in model:
        for parameter in chunk.parameters():
            share = 1 if getattr(parameter, "allreduce", True) else args.expert_model_parallel_size
            kept = parameter.element_size()
            if not args.no_save_optim:
                kept += _ADAM_BYTES + (_MASTER_BYTES if kept < _MASTER_BYTES else 0)
            total += parameter.numel() * share * kept
    return int(total * copies)


def _finish(session: Session, *, background: bool = False) -> None:
    """Megatron has synchronized the ranks before."""
    args, saver = _args(), saver_of(session)
    for iteration in session.unfinished_saves:
        sidecar = describe(args, args.save, iteration) if session.rank.rank == 0 else None
        saver.finish(iteration, sidecar, background=background)
    session.unfinished_saves.clear()


def _args() -> Any:
    from megatron.training import get_args

    return get_args()
