"""Ways to divide a model and its training, in parameters as a user writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from primus_backend_torchtitan import host
from primus_core.experiment import Value
from primus_core.outcome import Where
from primus_core.plan import RunPlan
from tests.torchtitan.experiments import MOCK, plan_of
from tests.torchtitan.families import MIXTURE

COPIES: Mapping[str, Value] = {
    "parallelism.data_parallel_replicate_degree": 2,
    "parallelism.data_parallel_shard_degree": 1,
}
HSDP: Mapping[str, Value] = {
    "parallelism.data_parallel_replicate_degree": 2,
    "parallelism.data_parallel_shard_degree": -1,
}
TP2: Mapping[str, Value] = {"tensor_model_parallel_size": 2}
PP2: Mapping[str, Value] = {"pipeline_model_parallel_size": 2}
LONG: Mapping[str, Value] = {"seq_length": 256, "max_position_embeddings": 256, "global_batch_size": 4}
DEEP: Mapping[str, Value] = {"num_layers": 4}
HALF_WAY = 2
"""Iterations of one process before others go on from its checkpoint."""


def scheduled(name: str) -> Mapping[str, Value]:
    """Four layers in a pipeline of two ranks."""
    return {**PP2, **DEEP, "parallelism.pipeline_parallel_schedule": name}


@frozen
class Layout:
    """What differs from the small Llama on ranks that each hold a shard of it."""

    params: Mapping[str, Value] = field(factory=dict)
    ranks: int = 2
    like: str = ""
    """The layout with the same losses, but for rounding."""
    resumes: bool = False
    """From the other's checkpoint, since stages draw first values of their own."""
    slow: bool = False
    """Takes long, or is trained by other tests as well."""


LAYOUTS: Mapping[str, Layout] = {
    "one process": Layout(ranks=1),
    "FSDP": Layout(like="one process", slow=True),
    "copies": Layout(COPIES, like="one process", slow=True),
    "copies of shards": Layout(HSDP, ranks=4, like="one process"),
    "tensor parallel": Layout(TP2, like="one process", slow=True),
    "tensor parallel and FSDP": Layout(TP2, ranks=4, like="one process", slow=True),
    "one process, long": Layout(LONG, ranks=1),
    "context parallel": Layout({**LONG, "context_parallel_size": 2}, like="one process, long"),
    "pipeline, 1F1B": Layout(PP2, slow=True),
    "one process, deep": Layout({**DEEP, "save_interval": HALF_WAY}, ranks=1),
    "pipeline, interleaved": Layout(scheduled("Interleaved1F1B"), like="one process, deep", resumes=True),
    "pipeline, folded": Layout(scheduled("ZBVZeroBubble"), like="one process, deep", resumes=True, slow=True),
    "pipeline, folded twice": Layout(scheduled("DualPipeV"), like="one process, deep", resumes=True, slow=True),
    "one process, experts": Layout(MIXTURE, ranks=1, slow=True),
    "expert parallel": Layout({**MIXTURE, "expert_model_parallel_size": 2}, like="one process, experts", slow=True),
    "full recompute": Layout({"activation_checkpoint.kind": "full"}, ranks=1, like="one process"),
    "selective recompute": Layout({"activation_checkpoint.kind": "selective"}, ranks=1, like="one process"),
    "bf16": Layout({"bf16": True}, ranks=1, slow=True),
    "compiled": Layout({"compile.enable": True}, ranks=1, like="one process", slow=True),
}


def legal_plan(layout: Layout, folder: Path, **more: Value) -> RunPlan:
    """The host's own plan for the small Llama in this layout, which its checks let pass."""
    plan = plan_of({**MOCK, **layout.params, **more}, ranks=layout.ranks, workspace=str(folder))
    assert list(host.preflight_check(plan, Where.SUBMIT)) == []
    return plan
