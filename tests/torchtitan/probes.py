"""Entries that try single patches in a rank, most of them without a training. Each returns what its test looks at."""

from __future__ import annotations

import importlib
import math
import sys
import time
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh

from primus_core.contract import RankContext
from primus_core.plan import RunPlan


def trains(plan: RunPlan, rank: RankContext) -> dict[str, Any]:
    """The loss of the last step, and the seconds that this rank slept."""
    from primus_backend_torchtitan.rank.train import run

    slept: list[float] = []
    time.sleep = slept.append
    return {"loss": run(plan, rank)["loss"], "slept": sum(slept)}


def continues(plan: RunPlan, rank: RankContext) -> bool:
    """Whether a training that was asked to stop goes on to its next step."""
    from torchtitan.trainer import Trainer

    from primus_backend_torchtitan.rank.session import CURRENT, Session

    CURRENT.set(Session(plan=plan, rank=rank, native={}, stops=True))
    trainer: Any = SimpleNamespace(step=1, config=SimpleNamespace(training=SimpleNamespace(steps=2)))
    return Trainer.should_continue_training(trainer)


def imports(plan: RunPlan, rank: RankContext) -> str:
    """The kernels that need Triton, imported anew."""
    name = "torchtitan.distributed.minimal_async_ep.kernels"
    sys.modules.pop(name, None)
    return importlib.import_module(name).__name__


def limits(plan: RunPlan, rank: RankContext) -> bool:
    """Whether a CPU's peak is taken for that of some GPU."""
    from torchtitan.tools import utils

    return math.isfinite(utils.get_peak_flops("cpu"))


def times_out(plan: RunPlan, rank: RankContext) -> bool:
    """Sets the groups' timeout as TorchTitan does after the first step."""
    from datetime import timedelta

    from torchtitan.distributed import ParallelDims, utils

    distributed.init_process_group("gloo")
    alone = ParallelDims(dp_replicate=1, dp_shard=1, cp=1, tp=1, pp=1, ep=1, world_size=1)
    alone.build_mesh()
    utils.set_pg_timeouts(timedelta(seconds=7), alone)
    return True


def shards(plan: RunPlan, rank: RankContext) -> list[float]:
    """Gradients of two ranks, averaged by a factor that TorchTitan chooses."""
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Linear(2, 2, bias=False)
    torch.nn.init.ones_(model.weight)
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    model.set_gradient_divide_factor(4.0)
    model(torch.full((1, 2), 1.0 + rank.rank)).sum().backward()
    gradient: list[float] = model.weight.grad.full_tensor().flatten().tolist()
    return gradient


def draws(plan: RunPlan, rank: RankContext) -> bool:
    """Whether two ranks that share a weight draw the same numbers for both of its halves."""
    from torch.distributed.tensor import Shard, distribute_tensor
    from torchtitan.models.common import Linear

    mesh = init_device_mesh("cpu", (2,))
    layer = Linear.Config(in_features=4, out_features=4, param_init={"weight": torch.nn.init.normal_}).build()
    layer.weight = torch.nn.Parameter(distribute_tensor(layer.weight.detach(), mesh, [Shard(0)]))
    torch.manual_seed(1)
    layer.init_states()
    whole = layer.weight.full_tensor()
    return bool(torch.equal(whole[:2], whole[2:]))


def attends(plan: RunPlan, rank: RankContext) -> list[float]:
    """Attention forth and back, under a mask as TorchTitan makes it."""
    from torchtitan.models.common import attention

    query, key, value = (torch.randn(1, 128, 2, 16, requires_grad=True) for _ in range(3))
    mask = torch.nn.attention.flex_attention.create_block_mask(_causal, 1, None, 128, 128, device="cpu")
    output = attention.FlexAttention.Config().build()(query, key, value, attention_masks=mask)
    output.sum().backward()
    assert query.grad is not None
    return list(output.shape)


def masks(plan: RunPlan, rank: RankContext) -> list[int]:
    """The mask of a sequence, and of a part of it, where nothing can be compiled."""
    from torch.distributed.tensor.experimental._context_parallel import _attention
    from torchtitan.models.common.attention import create_attention_mask

    mesh = init_device_mesh("cpu", (1,))
    with mock.patch.object(torch, "compile", side_effect=RuntimeError("the part's mask would be compiled")):
        part = _attention._create_cp_block_mask(_causal, 1, 1, 128, 128, mesh)
    torch.compiler.set_stance("fail_on_recompile")
    whole = create_attention_mask(_causal, 1, None, 128, 128, device="cpu")
    return [*whole.shape, *part.shape]


def schedules(plan: RunPlan, rank: RankContext) -> dict[str, list[float]]:
    """The losses of two micro batches, handed over as such, in a pipeline of one rank."""
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import ScheduleGPipe, ScheduleInterleaved1F1B

    distributed.init_process_group("gloo")
    group = distributed.group.WORLD

    def stages(count: int) -> list[PipelineStage]:
        parts = [torch.nn.Linear(2, 2) for _ in range(count)]
        return [PipelineStage(part, index, count, torch.device("cpu"), group=group) for index, part in enumerate(parts)]

    def step(schedule: Any) -> list[float]:
        losses: list[torch.Tensor] = []
        inputs = [(torch.ones(1, 2),), (torch.zeros(1, 2),)]
        schedule.step(arg_mbs=inputs, target_mbs=[torch.ones(1, 2)] * 2, losses=losses, return_outputs=False)
        return [float(loss) for loss in losses]

    torch.manual_seed(1)
    loss = torch.nn.functional.mse_loss
    return {
        "single": step(ScheduleGPipe(stages(1)[0], n_microbatches=2, loss_fn=loss)),
        "multi": step(ScheduleInterleaved1F1B(stages(2), n_microbatches=2, loss_fn=loss)),
    }


def _causal(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return query >= key
