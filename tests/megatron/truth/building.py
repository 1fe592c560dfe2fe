"""Megatron's own model, gradients and optimizer on the meta device, as one rank of any number, without the others."""

from __future__ import annotations

import contextlib
import logging
import os
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from torch import distributed

from primus_backend_megatron.host.schema import OWN
from primus_backend_megatron.rank import arguments, train
from tests.megatron.truth import figures
from tests.truth.collecting import uncollected

META = torch.device("meta")


def measured(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The figures of the `ranks` of a case with `native` values and `world`."""
    found = []
    for rank in case["ranks"]:
        with uncollected(), alone(rank, case["world"]), _on_meta():
            found.append(_figures(*_built(case["native"])))
    return found


@contextlib.contextmanager
def alone(rank: int, world: int) -> Iterator[None]:
    """A rank of so many, of which no other is there; Megatron's own state is as before afterwards."""
    from megatron.core import num_microbatches_calculator, parallel_state
    from megatron.core.rerun_state_machine import destroy_rerun_state_machine
    from megatron.training.global_vars import destroy_global_vars

    env = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "CUDA_DEVICE_MAX_CONNECTIONS": 1}
    logging.disable(logging.WARNING)
    try:
        with mock.patch.dict(os.environ, {name: str(value) for name, value in env.items()}), _quiet():
            yield
    finally:
        logging.disable(logging.NOTSET)
        parallel_state.destroy_model_parallel()
        if distributed.is_initialized():
            distributed.destroy_process_group()
        destroy_global_vars()
        destroy_rerun_state_machine()
        num_microbatches_calculator.unset_num_microbatches_calculator()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


def _as_it_is(self: Any, *args: object, **options: object) -> Any:
    return self


@contextlib.contextmanager
def _no_fork(self: Any, name: str = "") -> Iterator[None]:
    """`CudaRNGStatesTracker.fork` where nothing is drawn."""
    yield


def _type(original: Any) -> Any:
    """`Tensor.type` by which the optimizer tells formats: as on a device."""

    def named(self: Any, *args: Any, **options: Any) -> Any:
        found = original(self, *args, **options)
        return found.replace(".meta.", ".") if isinstance(found, str) else found

    return named


@contextlib.contextmanager
def _on_meta() -> Iterator[None]:
    """What is allocated has sizes and no values."""
    from megatron.core.tensor_parallel.random import CudaRNGStatesTracker

    with (
        mock.patch.object(torch.cuda, "current_device", return_value=META),
        mock.patch.object(torch.nn.Module, "cuda", _as_it_is),
        mock.patch.object(torch.Tensor, "cuda", _as_it_is),
        mock.patch.object(torch.Tensor, "type", _type(torch.Tensor.type)),
        mock.patch.object(CudaRNGStatesTracker, "fork", _no_fork),
    ):
        yield


def _helpless(self: Any, source: type) -> dict[str, str]:
    """The texts of Megatron's options, which it would read from its own source each time."""
    return defaultdict(str)


def _arguments(native: Mapping[str, Any]) -> tuple[Namespace, Any]:
    from megatron.training.argument_utils import (
        ArgumentGroupFactory,
        gpt_config_from_args,
        pretrain_cfg_container_from_args,
    )
    from megatron.training.global_vars import set_global_variables

    with mock.patch.object(ArgumentGroupFactory, "_get_field_docstrings", _helpless):
        args = arguments.build_namespace({name: value for name, value in native.items() if name not in OWN})
    args.fake_process_group, args.perform_initialization, args.use_gloo_process_groups = True, False, False
    arguments.validate(args)
    train._pad_vocabulary(args)
    set_global_variables(args, build_tokenizer=False)
    model = gpt_config_from_args(args)
    return args, pretrain_cfg_container_from_args(args, model)


def _built(native: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """The parts of the model that this rank holds, and its optimizer."""
    from megatron.core.enums import ModelType
    from megatron.core.process_groups_config import ProcessGroupCollection
    from megatron.training import initialize, training

    _, config = _arguments(native)
    initialize.initialize_megatron(allow_no_cuda=True)
    groups = ProcessGroupCollection.use_mpu_process_groups()
    with META:
        model, optimizer, _ = training.setup_model_and_optimizer(
            ModelType.encoder_or_decoder, cfg_container=config, pg_collection=groups
        )
    return model, optimizer


def _figures(model: list[Any], optimizer: Any) -> dict[str, Any]:
    return {
        "parameters": figures.counted(model),
        "weights": figures.weights(model),
        "gradients": figures.gradients(model),
        "buffers": figures.buffers(model),
        **figures.states(optimizer),
    }
