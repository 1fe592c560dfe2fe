"""Real ranks for the tests of the Megatron back end."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from primus_backend_megatron.host.schema import schema_for
from primus_backend_megatron.patch_plan import plan_patches
from primus_core.experiment import Value
from primus_core.plan import Job, Layout, PatchSpec, RunPlan, Settings, Target, Task, Translation
from tests.forked import ranks

ENTRY = "primus_backend_megatron.rank.train:run"

CPU: Mapping[str, Value] = {
    "transformer_impl": "local",
    "distributed_backend": "gloo",
    "masked_softmax_fusion": False,
    "gradient_accumulation_fusion": False,
    "bias_gelu_fusion": False,
    "bias_swiglu_fusion": False,
    "bias_dropout_fusion": False,
    "apply_rope_fusion": False,
    "no_persist_layer_norm": True,
    "num_workers": 0,
}
"""What differs from Megatron's defaults on a CPU."""

LLAMA: Mapping[str, Value] = {
    "num_layers": 2,
    "hidden_size": 64,
    "ffn_hidden_size": 128,
    "num_attention_heads": 4,
    "group_query_attention": True,
    "num_query_groups": 2,
    "swiglu": True,
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "add_bias_linear": False,
    "untie_embeddings_and_output_weights": True,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "seq_length": 32,
    "max_position_embeddings": 32,
    "micro_batch_size": 2,
    "global_batch_size": 8,
    "train_iters": 6,
    "lr": 1e-2,
    "min_lr": 1e-3,
    "lr_decay_style": "cosine",
    "log_interval": 1,
    "eval_interval": 1000,
    "eval_iters": 0,
    "mock_data": True,
    "vocab_size": 250,
}
"""A Llama of a few thousand parameters on generated data."""


def make_plan(
    native: Mapping[str, Value] | None = None,
    *,
    folder: Path | str = "/nowhere",
    world: int = 2,
    patches: tuple[PatchSpec, ...] | None = None,
    settings: Mapping[str, Value] | None = None,
) -> RunPlan:
    """The plan of a training run, as the host would make it: with the patches that its values need."""
    native = {**CPU, **LLAMA, **(native or {})}
    target = Target(accelerator="cpu", library_version="0.19.2", ranks_per_node=world)
    task = Task(kind="train", entry=ENTRY, ranks_per_node=world)
    return RunPlan(
        run_id="test",
        run_dir=str(folder),
        target=target,
        task=task,
        framework="megatron",
        module="pre_trainer",
        settings=Settings(values=settings or {}),
        translation=Translation(
            native=native,
            entry=ENTRY,
            layout=Layout(),
            patches=plan_patches(target, with_defaults(native)) if patches is None else patches,
            environment={"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
        ),
        job=Job(run_id="test", name="test", task=task, python=sys.executable, argv=()),
        launcher="single",
    )


def with_defaults(native: Mapping[str, Value]) -> Mapping[str, Value]:
    """All of Megatron's parameters."""
    parameters = schema_for("0.19.2").parameters
    return {**{name: parameter.default for name, parameter in parameters.items()}, **native}


def all_patches() -> tuple[PatchSpec, ...]:
    """Everything that may be planned on a CPU."""
    return plan_patches(Target(accelerator="cpu", library_version="0.19.2", ranks_per_node=1))


class Ranks(ranks.Ranks):
    """Run the small Llama on plans of Megatron's own values."""

    def __init__(self) -> None:
        super().__init__("tests.megatron.zygote", make_plan(patches=all_patches()))

    def make_plan(
        self, params: Mapping[str, Value], folder: Path, world: int, settings: Mapping[str, Value]
    ) -> RunPlan:
        return make_plan(params, folder=folder, world=world, settings=settings)
