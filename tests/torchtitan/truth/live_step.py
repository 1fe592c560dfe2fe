"""TorchTitan's own training steps on tensors without values, as one rank of any number, without the others."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import DTensor, Replicate, Shard
from torchtitan.components.loss import ChunkedLossWrapper
from torchtitan.config import TORCH_DTYPE_MAP
from torchtitan.distributed import utils as library
from torchtitan.trainer import Trainer

from tests.torchtitan.truth import building
from tests.torchtitan.truth.building import alone, built, tied
from tests.torchtitan.truth.live_fake import answered
from tests.torchtitan.truth.live_fused import fused
from tests.torchtitan.truth.live_stages import begin, neighbours
from tests.truth.live import Watch
from tests.truth.sharded import ShardedLive


def measured(case: Mapping[str, Any], watch: Watch | None = None) -> dict[str, Any]:
    """Peaks of the second of two training steps.

    Args:
        case: ``native`` values, ``version``, ``world``, ``rank``, whether kernels are ``fused``; ``load``: tokens of
            this rank's experts over those of a mean rank's, 1 unless told.

    Returns:
        ``static``: bytes that live before the step; ``peak``: the most during its forward and backward passes, and
        ``at`` which operation; ``optimizer``: the most that lives while its optimizer works.
    """
    with alone(case["rank"], case["world"]), fused() if case["fused"] else contextlib.nullcontext():
        model = built(case["native"], case["version"], case["world"])
        live = ShardedLive(watch)
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.autograd.set_multithreading_enabled(False))
            stack.enter_context(neighbours(partial(_stream, model)))
            stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
            stack.enter_context(answered(case.get("load", 1)))
            stack.enter_context(live)
            return _steps(model, live)


def attempted(case: Mapping[str, Any]) -> dict[str, Any]:
    """What was `measured`, or the ``error`` in one line."""
    try:
        with torch.compiler.set_stance("force_eager"):  # kernels are not compiled for tensors without values
            return measured(case)
    except Exception as error:  # noqa: BLE001  # told to the reader, whatever it is
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}


def _steps(model: building.Built, live: ShardedLive) -> dict[str, Any]:
    parts = [tied(part.to_empty(device="cpu")) for part in model.parts]
    trainer = _trainer(model, parts)
    optimizers = model.config.optimizer.build(model_parts=parts)
    found: dict[str, Any] = {}
    for _ in range(2):
        optimizers.zero_grad()
        gc.collect()
        batches = list(_batches(model))
        received = begin(model.schedule) if model.schedule else 0
        found["static"] = live.restart() - received
        for inputs, labels in batches:
            trainer.forward_backward_step(input_dict=inputs, labels=labels, global_valid_tokens=torch.tensor(64))
        del batches, inputs, labels
        found["peak"], found["at"] = live.peak, live.at
        live.restart()
        _optimize(model, parts, optimizers)
        found["optimizer"] = live.peak
    return found


def _stream(model: building.Built) -> torch.Tensor:
    """What stages send each other of a micro batch."""
    training, parallel, dims = model.config.training, model.config.parallelism, model.dims
    divided = dims.tp_enabled and parallel.enable_sequence_parallel
    length = training.seq_len // (dims.cp * (dims.tp if divided else 1))
    shape = (parallel.pipeline_parallel_microbatch_size, length, model.config.model_spec.model.dim)
    local = torch.empty(shape, dtype=TORCH_DTYPE_MAP[training.mixed_precision_param])
    if not dims.tp_enabled:
        return local
    return DTensor.from_local(local, dims.get_mesh("tp"), [Shard(1) if divided else Replicate()], run_check=False)


def _trainer(model: building.Built, parts: list[Any]) -> Any:
    """TorchTitan's trainer with no more than its forward and backward passes read."""
    trainer = Trainer.__new__(Trainer)
    chunked = isinstance(model.loss, ChunkedLossWrapper) and model.last
    if chunked:
        model.loss.set_lm_head(parts[-1].lm_head)
        parts[-1]._skip_lm_head = True
    vars(trainer).update(
        config=model.config,
        parallel_dims=model.dims,
        model_config=model.config.model_spec.model,
        model_parts=parts,
        loss_fn=model.loss,
        pp_schedule=model.schedule,
        pp_has_first_stage=model.first,
        pp_has_last_stage=model.last,
        device=torch.device("cpu"),
        ntokens_seen=0,
        train_context=library.get_spmd_context(parallel_dims=model.dims),
    )
    trainer.fwd_bwd_fn = trainer._forward_backward_body
    return trainer


def _batches(model: building.Built) -> Iterator[tuple[Any, Any]]:
    """Inputs and labels for each forward and backward pass of a step."""
    training, parallel = model.config.training, model.config.parallelism
    replicas = model.dims.dp_replicate * model.dims.dp_shard
    passes = max(1, training.global_batch_size // (training.local_batch_size * replicas))
    for _ in range(passes):
        if model.schedule is None:
            yield _batch(training.local_batch_size, training.seq_len)
            continue
        size = parallel.pipeline_parallel_microbatch_size
        pairs = [_batch(size, training.seq_len) for _ in range(training.local_batch_size // size)]
        yield [inputs for inputs, _ in pairs], [labels for _, labels in pairs]


def _batch(samples: int, length: int) -> tuple[dict[str, Any], Any]:
    tokens, labels = (torch.zeros((samples, length), dtype=torch.int64) for _ in range(2))
    return {"input": tokens, "positions": torch.arange(length).repeat(samples, 1)}, labels


def _optimize(model: building.Built, parts: list[Any], optimizers: Any) -> None:
    """As TorchTitan's trainer does it."""
    library.clip_grad_norm_(
        [parameter for part in parts for parameter in part.parameters()],
        model.config.training.max_norm,
        foreach=True,
        pp_mesh=model.dims.get_optional_mesh("pp"),
        ep_enabled=model.dims.ep_enabled,
    )
    optimizers.step()
