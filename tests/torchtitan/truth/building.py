"""TorchTitan's own model and optimizer on the meta device, as one rank of any number, without the others."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from attrs import frozen
from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore
from torchtitan.config import TORCH_DTYPE_MAP
from torchtitan.distributed import ParallelDims
from torchtitan.distributed import utils as library
from torchtitan.protocols.model import BaseModel
from torchtitan.tools import utils

from primus_backend_torchtitan.rank.config import build_config
from primus_core.experiment import Value
from tests.torchtitan.truth import figures
from tests.truth.collecting import uncollected


@contextmanager
def alone(rank: int, world: int) -> Iterator[None]:
    """A process group of so many ranks in which nobody answers."""
    distributed.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        distributed.destroy_process_group()


@frozen(kw_only=True)
class Built:
    """TorchTitan's configuration of a plan's values, and what it makes of it on one rank."""

    config: Any
    dims: Any
    parts: list[Any]
    """Of the model, those that this rank holds."""
    loss: Any
    schedule: Any = None
    """Of the pipeline; None without one."""
    first: bool = True
    """This rank has the first stage."""
    last: bool = True


def built(native: Mapping[str, Value], version: str, world: int) -> Built:
    """The model as TorchTitan's trainer builds it, without values."""
    config = build_config(native, version)
    dims = ParallelDims.from_config(config.parallelism, world)
    library.set_spmd_backend(config.parallelism.spmd_backend)
    spec = config.model_spec
    spec.model.update_from_config(config=config)
    with torch.device("meta"), utils.set_default_dtype(TORCH_DTYPE_MAP[config.training.dtype]):
        model = spec.model.build()
    options = {
        "parallel_dims": dims,
        "training": config.training,
        "parallelism": config.parallelism,
        "compile_config": config.compile,
        "ac_config": config.activation_checkpoint,
        "dump_folder": config.dump_folder,
    }
    loss = config.loss.build(compile_config=config.compile)
    if not dims.pp_enabled:
        return Built(config=config, dims=dims, parts=[tied(spec.parallelize_fn(model, **options))], loss=loss)
    stages = {"device": torch.device("cpu"), "model_config": spec.model, "parallelize_fn": spec.parallelize_fn}
    schedule, parts, first, last = spec.pipelining_fn(model, loss_fn=loss, **stages, **options)
    return Built(config=config, dims=dims, parts=parts, loss=loss, schedule=schedule, first=first, last=last)


def parts_of(native: Mapping[str, Value], version: str, world: int) -> tuple[Any, list[Any]]:
    """TorchTitan's configuration of a plan's values, and the parts of the model that this rank holds."""
    found = built(native, version, world)
    return found.config, found.parts


def tied(part: Any) -> Any:
    """A part whose embedding and output are one tensor again, as TorchTitan makes them when it fills the weights."""
    with mock.patch.object(BaseModel, "init_states"):
        part.init_states()
    return part


def measured(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The figures of the `ranks` of a case with `native` values, `version`, `world` and `works`, as `Case` has them."""
    found = []
    for rank in case["ranks"]:
        with uncollected(), alone(rank, case["world"]):
            config, parts = parts_of(case["native"], case["version"], case["world"])
            found.append(_figures(config, parts, works=case["works"]))
    return found


def _figures(config: Any, parts: list[Any], *, works: bool) -> dict[str, Any]:
    return {
        "parameters": figures.counted(parts),
        "order": figures.order(parts),
        "weights": figures.stored(figures.parameters(parts)),
        "buffers": figures.stored(figures.buffers(parts)),
        **({"moments": figures.moments(config, parts), **figures.sharded(parts, tied)} if works else {}),
    }
