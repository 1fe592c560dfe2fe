"""Patches of Megatron's checkpointing, so that a half-written or half-deleted checkpoint is never taken for whole."""

from __future__ import annotations

import functools
import queue
from collections.abc import Callable
from typing import Any

from primus_backend_megatron.checkpoints import NAMING, tracked_iteration
from primus_backend_megatron.rank.describing import describe, trained_tokens
from primus_backend_megatron.rank.session import CURRENT, Session
from primus_core.checkpoints.sidecar import as_mapping


def marking_save(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory: `save_checkpoint` that announces a checkpoint before it is written and marks it when it is whole."""

    @functools.wraps(original)
    def save_checkpoint(iteration: int, *rest: Any, **options: Any) -> Any:
        session = CURRENT.get(None)
        if session is None or options.get("non_persistent_ckpt"):
            return original(iteration, *rest, **options)
        if not session.trained and NAMING.is_whole(_args().save, iteration):
            # A run that had nothing left to train: what was loaded is not put at risk to write it again.
            session.rank.log("info", "checkpoint is there already", iteration=iteration)
            return None
        _announce(session, iteration)
        session.enter("save")
        session.saved_tokens[iteration] = trained_tokens(_args())
        result = original(iteration, *rest, **options)
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

        result = original(*args, **options)
        session = CURRENT.get(None)
        if session is not None and session.unfinished_saves and is_empty_async_queue():
            _finish(session)
        return result

    return maybe_finalize_async_save


def unmarking_delete(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory: the deletion of an old checkpoint, which takes its marker first.

    Megatron deletes right after it has completed the next checkpoint and before `save_checkpoint` returns, in a
    thread or a process of its own: so the next one is marked here if it is not yet.
    """

    @functools.wraps(original)
    def delete(save: str, iteration: int, *rest: Any, **options: Any) -> Any:
        _mark_tracked(save)
        NAMING.begin_deleting(save, iteration)
        return original(save, iteration, *rest, **options)

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


def _announce(session: Session, iteration: int) -> None:
    from torch import distributed

    if session.rank.rank == 0:
        NAMING.begin_saving(_args().save, iteration)
    distributed.barrier()


def _finish(session: Session) -> None:
    """Rank 0 marks; the others only note the folder. Megatron has synchronized the ranks before."""
    save = _args().save
    for iteration in session.unfinished_saves:
        if session.rank.rank == 0:
            _mark(save, iteration)
        session.checkpoint = str(NAMING.folder(save, iteration))
        session.rank.log("info", "checkpoint complete", iteration=iteration, folder=session.checkpoint)
    session.unfinished_saves.clear()


def _mark_tracked(save: str) -> None:
    iteration = tracked_iteration(save)
    if iteration is not None and NAMING.is_saving(save, iteration):
        _mark(save, iteration)


def _mark(save: str, iteration: int) -> None:
    NAMING.finish_saving(save, iteration, as_mapping(describe(_args(), save, iteration)))


def _args() -> Any:
    from megatron.training import get_args

    return get_args()
