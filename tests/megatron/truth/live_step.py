"""Megatron's own training steps on tensors without values, as one rank of any number, without the others."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
from argparse import Namespace
from collections.abc import Iterator, Mapping
from itertools import count, repeat
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from primus_backend_megatron.rank import arguments, train
from tests.megatron.truth.live_fake import answered, discarded
from tests.megatron.truth.live_fused import fused, unfused
from tests.truth.live import Watch
from tests.truth.sharded import ShardedLive


def measured(case: Mapping[str, Any], watch: Watch | None = None) -> dict[str, Any]:
    """Peaks of two training steps.

    Args:
        case: ``native`` values, ``world``, ``rank``, whether kernels are ``fused``; ``load``: tokens that its experts
            get, over the mean; ``once``: the first step alone, up to its optimizer: buffers that stay from then on come
            to be in it.

    Returns:
        ``static``: bytes that live before the last step and at its peak still; ``peak``: the most during its forward
        and backward passes;
        ``optimizer``: the most while its optimizer works; ``weights``: of the parameters.
    """
    os.environ.update(RANK=str(case["rank"]), WORLD_SIZE=str(case["world"]), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "8" if case["native"].get("use_torch_fsdp2") else "1"
    logging.disable(logging.WARNING)
    args, config = _arguments(case["native"])
    live = ShardedLive(watch)
    with FakeTensorMode(allow_non_fake_inputs=True), contextlib.ExitStack() as stack:
        stack.enter_context(answered(_rows(args), round(_rows(args) * case.get("load", 1))))
        if case["fused"]:
            stack.enter_context(fused())
        if case["native"].get("attention_backend") == "unfused":
            stack.enter_context(unfused())
        stack.enter_context(discarded(live))
        with live:
            return _steps(args, config, live, once=bool(case.get("once")), fused=case["fused"])


def _arguments(native: Mapping[str, Any]) -> tuple[Namespace, Any]:
    from megatron.training.argument_utils import gpt_config_from_args, pretrain_cfg_container_from_args
    from megatron.training.global_vars import set_global_variables

    from primus_backend_megatron.host.schema import OWN

    args = arguments.build_namespace({name: value for name, value in native.items() if name not in OWN})
    args.fake_process_group = True
    args.perform_initialization = False
    with mock.patch.object(torch.cuda, "get_device_capability", return_value=(9, 0)):
        arguments.validate(args)
    args.high_priority_stream_groups = []
    train._pad_vocabulary(args)
    set_global_variables(args, build_tokenizer=False)
    model = gpt_config_from_args(args)
    model.rope_scaling_factor = args.rope_scaling_factor
    return args, pretrain_cfg_container_from_args(args, model)


def _rows(args: Namespace) -> int:
    if not args.num_experts:
        return 0
    shared = args.context_parallel_size * (args.tensor_model_parallel_size if args.sequence_parallel else 1)
    return int(args.micro_batch_size * args.seq_length // shared * args.moe_router_topk)


def _batch(args: Namespace) -> dict[str, torch.Tensor]:
    shape = (args.micro_batch_size, args.seq_length)
    return {
        **{name: torch.zeros(shape, dtype=torch.int64) for name in ("tokens", "position_ids", "labels")},
        "loss_mask": torch.ones(shape),
    }


def _batches(args: Namespace, *, on_host: bool) -> Iterator[dict[str, torch.Tensor]]:
    """A new one each time; those in the memory of a GPU's host are not counted: it is one, made beforehand."""
    return repeat(_batch(args)) if on_host else (_batch(args) for _ in count())


class _Enough(Exception):
    """The first step has run backward."""


def _steps(args: Namespace, config: Any, live: ShardedLive, *, once: bool, fused: bool) -> dict[str, Any]:
    from megatron.core.distributed import finalize_model_grads
    from megatron.core.enums import ModelType
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.process_groups_config import ProcessGroupCollection
    from megatron.core.rerun_state_machine import RerunDataIterator
    from megatron.core.utils import get_model_config
    from megatron.training import initialize, training

    from primus_backend_megatron.rank.data import needs_data
    from primus_backend_megatron.rank.step import forward_step

    initialize.initialize_megatron(allow_no_cuda=True)
    groups = ProcessGroupCollection.use_mpu_process_groups()
    model, optimizer, scheduler = training.setup_model_and_optimizer(
        ModelType.encoder_or_decoder, cfg_container=config, pg_collection=groups
    )
    settings = get_model_config(model[0])
    settings.grad_scale_func = optimizer.scale_loss
    settings.finalize_model_grads_func = finalize_model_grads
    _overlap(args, settings, model)
    work = get_forward_backward_func()
    found: dict[str, Any] = {}

    def forward_backward(**options: Any) -> Any:
        gc.collect()
        live.restart()
        result = work(**options)
        found["peak"], found["at"], found["static"] = live.peak, live.at, live.beneath
        if once:
            raise _Enough
        live.restart()
        return result

    virtual = range(len(model)) if len(model) > 1 else [None]
    chunks = [RerunDataIterator(_batches(args, on_host=fused)) if needs_data(args, one) else None for one in virtual]
    data = chunks if len(model) > 1 else chunks[0]
    with contextlib.suppress(_Enough):
        for _ in range(2):
            training.train_step(forward_step, data, model, optimizer, scheduler, settings, forward_backward)
            found["optimizer"] = live.peak
    found["weights"] = sum(p.nbytes for chunk in model for p in chunk.parameters())
    return found


def _overlap(args: Namespace, settings: Any, model: list[Any]) -> None:
    """What Megatron's loop sets where gradients are reduced while others are computed."""

    def one(functions: list[Any]) -> Any:
        return functions if len(functions) > 1 else functions[0]

    if args.overlap_grad_reduce:
        settings.no_sync_func = one([chunk.no_sync for chunk in model])
        if args.align_grad_reduce:
            settings.grad_sync_func = one([chunk.start_grad_sync for chunk in model])
