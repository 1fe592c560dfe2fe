"""The task's entry: train a GPT model with `megatron.training`."""

from __future__ import annotations

import functools
import os
from argparse import Namespace
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from primus_backend_megatron.checkpoints import MEGATRON
from primus_backend_megatron.host.schema import OWN
from primus_backend_megatron.rank import arguments
from primus_backend_megatron.rank.data import (
    Provider,
    Sources,
    Vocabulary,
    check_document_ends,
    mock_vocabulary,
    prepared_sources,
    prepared_vocabulary,
)
from primus_backend_megatron.rank.explaining import explained
from primus_backend_megatron.rank.resume import choose_checkpoint, take
from primus_backend_megatron.rank.saving import Collectives
from primus_backend_megatron.rank.session import CURRENT, Session
from primus_core.apart import is_apart
from primus_core.checkpoints.choosing import fresh_start, own_run
from primus_core.checkpoints.settling import settle
from primus_core.contract import RankContext
from primus_core.errors import ConfigError, RunError
from primus_core.plan import RunPlan


def run(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Train as the plan's translation says, in every rank at once.

    Returns:
        ``iteration`` (the last finished one), ``loss`` (its loss; None on ranks that do not compute it) and
        ``checkpoint`` (folder of the last whole one; None without any).

    Raises:
        ConfigError: a native value that Megatron or this trainer does not accept.
        RunError: there is no checkpoint to load, or Megatron ended the run with a failure.
    """
    session = Session(plan=plan, rank=rank)
    token = CURRENT.set(session)
    try:
        _train(session)
    except BaseException:
        if session.saver:
            session.saver.leave()
        raise
    finally:
        CURRENT.reset(token)
    session.enter("done")
    return {"iteration": session.iteration, "loss": session.loss, "checkpoint": session.checkpoint}


def _train(session: Session) -> None:
    rank = session.rank
    session.enter("import")
    import megatron.training.training  # noqa: F401  # the slow part, told apart from what follows

    session.enter("init")
    args = _namespace(session)
    vocabulary, sources = _data(args, session)
    check_document_ends(args, vocabulary)
    args.vocab_size = args.vocab_size or vocabulary.vocab_size
    arguments.validate(args)
    _pad_vocabulary(args)
    provider = Provider(
        args=args,
        vocabulary=vocabulary,
        sources=sources,
        cache=_index_cache(args.data_cache_path, session, sources),
        on_start=functools.partial(session.enter, "data"),
        warn=functools.partial(_warn_once, rank),
    )
    _pretrain(args, provider, session)


def _namespace(session: Session) -> Namespace:
    """The values of the plan, with the checkpoint to start from."""
    native = _native(session.plan)
    args = arguments.build_namespace({name: value for name, value in native.items() if name not in OWN})
    wanted = bool(session.plan.settings.values.get("auto_continue_train"))
    own = own_run(session.plan.run_id, session.rank.env)
    session.start = choose_checkpoint(args, load_hf=native.get("load_hf"), auto_continue=wanted, own_run=own)
    session.huggingface = session.start.huggingface
    if checkpoint := session.start.checkpoint:
        session.checkpoint, session.iteration = str(checkpoint.folder), checkpoint.iteration
    elif session.huggingface:
        session.rank.notice("start", f"from the weights in {session.huggingface}")
    elif told := fresh_start(MEGATRON, args.save, auto_continue=wanted):
        session.rank.notice("start", told)
    if args.use_checkpoint_args:
        from megatron.training.checkpointing import load_args_from_checkpoint

        load_args_from_checkpoint(args, load_arg="pretrained_checkpoint")
        load_args_from_checkpoint(args)
    return args


def _native(plan: RunPlan) -> Mapping[str, Any]:
    if plan.translation is None:
        raise RunError("the plan has no translation: there is nothing to train")
    return plan.translation.native


def _data(args: Namespace, session: Session) -> tuple[Vocabulary, Sources | None]:
    """The vocabulary and the token files; no files for generated data."""
    if args.mock_data:
        if not args.vocab_size:
            raise ConfigError("mock_data needs a vocabulary size", where="vocab_size", remedy="Set vocab_size.")
        return mock_vocabulary(args.vocab_size), None
    prepared = session.rank.prepared("data")
    return prepared_vocabulary(prepared), prepared_sources(prepared, args.split)


def _pad_vocabulary(args: Namespace) -> None:
    """Rows of the embedding: the vocabulary, rounded up so that every tensor-parallel rank gets as many.

    Megatron does this while it builds a tokenizer, which we never let it do.
    """
    if args.padded_vocab_size is None:
        multiple = args.make_vocab_size_divisible_by * args.tensor_model_parallel_size
        args.padded_vocab_size = -(-args.vocab_size // multiple) * multiple


def _warn_once(rank: RankContext, text: str) -> None:
    """Of what every rank finds out, rank 0 warns."""
    rank.log("warning" if rank.rank == 0 else "debug", text)


def _index_cache(asked: str | None, session: Session, sources: Sources | None) -> str:
    """Where Megatron keeps the order of samples: in the workspace, whoever owns the token files.

    Megatron names these files by path and settings, so a folder for each state of the token files keeps an order from
    being used for others that took their place. Rank 0 writes them: a rank that does not see its files gets no folder,
    and makes the order itself.
    """
    if is_apart(session.rank.env):
        return ""
    experiment = session.plan.experiment
    root = Path(experiment.workspace if experiment else session.plan.run_dir) / "cache" / "megatron-indices"
    prefixes = sources.prefixes() if sources else []
    states = [(prefix, (stat := os.stat(f"{prefix}.idx")).st_size, stat.st_mtime_ns) for prefix in prefixes]
    return str(Path(asked or root) / sha256(repr(states).encode()).hexdigest()[:16])


def _pretrain(args: Namespace, provider: Provider, session: Session) -> None:
    from megatron.core.enums import ModelType
    from megatron.training.argument_utils import gpt_config_from_args, pretrain_cfg_container_from_args
    from megatron.training.global_vars import set_global_variables
    from megatron.training.training import pretrain
    from torch import distributed

    from primus_backend_megatron.rank.step import forward_step

    set_global_variables(args, build_tokenizer=False)
    model = gpt_config_from_args(args)
    # Megatron 0.19 reads the parameter and leaves its model at 8.
    model.rope_scaling_factor = args.rope_scaling_factor
    if session.start.checkpoint:
        model.pre_wrap_hooks.append(functools.partial(_settle, args, session))
    if session.huggingface:
        from primus_backend_megatron.rank.weights import fill

        model.pre_wrap_hooks.append(functools.partial(fill, plan=session.plan, folder=session.huggingface))
    config = pretrain_cfg_container_from_args(args, model)
    try:
        pretrain(config, provider, ModelType.encoder_or_decoder, forward_step)
    except SystemExit as end:
        _check_exit(end.code)
    except (AssertionError, RuntimeError) as error:
        known = explained(error)
        if known is error:
            raise
        raise known from error
    if session.saver:
        session.saver.wait()
    # Without this gloo and NCCL complain about their peers while the processes end.
    distributed.destroy_process_group()


def _settle(args: Namespace, session: Session, chunks: list[Any]) -> list[Any]:
    """Before Megatron loads, all ranks look whether the checkpoint is sound, and take an older one where it is not."""
    session.start = settle(
        session.start,
        session.rank,
        Collectives(),
        sums=bool(session.plan.settings.values.get("verify_checkpoint", True)),
    )
    take(args, session.start)
    if checkpoint := session.start.checkpoint:
        session.checkpoint, session.iteration = str(checkpoint.folder), checkpoint.iteration
        session.rank.notice("resume", f"from {checkpoint.folder}")
    return chunks


def _check_exit(code: object) -> None:
    """Megatron leaves by `sys.exit` when it was asked to end early, which is no failure."""
    if code not in (None, 0):
        raise RunError(
            f"Megatron ended the run with status {code}",
            why="16: restart to repeat a doubtful step; 17: a doubtful step was repeated" if code in (16, 17) else "",
        )
