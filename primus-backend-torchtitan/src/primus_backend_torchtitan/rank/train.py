"""The task's entry: train a model with TorchTitan's `Trainer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from primus_backend_torchtitan.host.schema import schema_for
from primus_backend_torchtitan.rank.resume import choose_start
from primus_backend_torchtitan.rank.session import CURRENT, Session
from primus_core.contract import RankContext
from primus_core.errors import RunError
from primus_core.plan import RunPlan


def run(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Train as the plan's translation says, in every rank at once.

    Returns:
        ``iteration`` (the last finished one), ``loss`` (its loss; None on ranks that do not compute it) and
        ``checkpoint`` (folder of the last whole one; None without any).

    Raises:
        ConfigError: a native value that TorchTitan does not accept.
        RunError: the plan has nothing to train.
    """
    if plan.translation is None:
        raise RunError("the plan has no translation: there is nothing to train")
    session = Session(plan=plan, rank=rank, native=plan.translation.native)
    token = CURRENT.set(session)
    try:
        _train(session)
    finally:
        CURRENT.reset(token)
    session.enter("done")
    return {"iteration": session.iteration, "loss": session.loss, "checkpoint": session.checkpoint}


def _train(session: Session) -> None:
    session.enter("import")
    from primus_backend_torchtitan.rank.config import build_config, refused
    from primus_backend_torchtitan.rank.samples import document_end, make_samples

    version = session.plan.target.library_version
    choose_start(session)
    session.enter("data")
    session.samples = make_samples(session, schema_for(version).defaults)
    session.document_end = document_end(session)
    session.enter("init")
    config = build_config(session.native, version)
    _write_structured_log(config)
    try:
        trainer = config.build()
    except (AssertionError, ValueError, NotImplementedError) as error:
        raise refused(error) from error
    try:
        _load_weights(trainer, session)
        trainer.train()
        if trainer.checkpointer.enable:
            trainer.checkpointer.finish()
    except BaseException:
        if trainer.checkpointer.enable:
            trainer.checkpointer.leave()
        raise
    finally:
        trainer.close()
    from torch import distributed

    # Without this gloo and NCCL complain about their peers while the processes end.
    distributed.destroy_process_group()


def _load_weights(trainer: Any, session: Session) -> None:
    """Of a Hugging Face folder, where the run starts from one."""
    if session.huggingface:
        from primus_backend_torchtitan.rank.weights import fill

        session.enter("load")
        fill(trainer.model_parts, session.plan, session.huggingface)


def _write_structured_log(config: Any) -> None:
    """TorchTitan's own trace of its phases, a file for each rank, where `debug.enable_structured_logging` is on."""
    from torchtitan.observability import structured_logger

    structured_logger.init_structured_logger(
        source="training", output_dir=config.dump_folder, enable=config.debug.enable_structured_logging
    )
