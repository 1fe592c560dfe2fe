"""Experiments for the TorchTitan back end, made without files, and their plans."""

from __future__ import annotations

from primus_backend_torchtitan import host
from primus_core.experiment import Experiment, Layer, Leaf, Module, Origin, Value
from primus_core.outcome import Finding, Where
from primus_core.plan import Accelerator, RunPlan, Settings, Target, Translation
from primus_core.planning.make import Request, make_plan

VERSION = "0.3.0"

MOCK: dict[str, Value] = {
    "num_layers": 2,
    "hidden_size": 64,
    "ffn_hidden_size": 128,
    "num_attention_heads": 4,
    "num_query_groups": 2,
    "group_query_attention": True,
    "swiglu": True,
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "add_bias_linear": False,
    "untie_embeddings_and_output_weights": True,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "seq_length": 32,
    "max_position_embeddings": 32,
    "vocab_size": 250,
    "micro_batch_size": 2,
    "global_batch_size": 8,
    "train_iters": 6,
    "lr": 1e-2,
    "min_lr": 1e-3,
    "lr_decay_style": "cosine",
    "mock_data": True,
    "seed": 1234,
}
"""A Llama of a few thousand parameters on made-up tokens, by portable names."""


def leaf(value: Value, line: int, layer: Layer = "overrides") -> Leaf:
    return Leaf(value=value, origin=Origin(file="exp.yaml", line=line, layer=layer))


def module_of(params: dict[str, Value], layers: dict[str, Layer] | None = None) -> Module:
    """A module whose parameters stand in lines 10, 11, 12 ... of ``exp.yaml``."""
    leaves = {
        name: leaf(value, line, (layers or {}).get(name, "overrides"))
        for line, (name, value) in enumerate(params.items(), start=10)
    }
    return Module(
        name="pre_trainer",
        framework="torchtitan",
        framework_origin=Origin(file="exp.yaml", line=7),
        config="pre_trainer.yaml",
        model="tiny.yaml",
        params=leaves,
    )


def experiment_of(module: Module, workspace: str = "/workspace") -> Experiment:
    return Experiment(
        file="exp.yaml",
        work_group="team",
        user_name="me",
        exp_name="exp",
        workspace=workspace,
        modules={module.name: module},
    )


def target_of(accelerator: Accelerator = "cpu", ranks: int = 1, version: str = VERSION) -> Target:
    return Target(accelerator=accelerator, library_version=version, ranks_per_node=ranks)


def translate(
    params: dict[str, Value],
    layers: dict[str, Layer] | None = None,
    *,
    accelerator: Accelerator = "cpu",
    ranks: int = 1,
    version: str = VERSION,
) -> Translation:
    module = module_of(params, layers)
    translation = host.translate_config(experiment_of(module), module, target_of(accelerator, ranks, version))
    assert translation is not None
    return translation


def plan_of(
    params: dict[str, Value],
    *,
    ranks: int = 1,
    version: str = VERSION,
    workspace: str = "/workspace",
    settings: dict[str, Value] | None = None,
) -> RunPlan:
    """The plan of a run on CPU ranks, as the host makes it."""
    module = module_of(params)
    experiment, target = experiment_of(module, workspace), target_of("cpu", ranks, version)
    translation = host.translate_config(experiment, module, target)
    assert translation is not None
    return make_plan(
        experiment,
        module,
        target=target,
        settings=Settings(values=settings or {}),
        translation=translation,
        prepare=(),
        request=Request(launcher="single", run_id="run"),
        distributions={},
    )


def findings(params: dict[str, Value], *, ranks: int = 1, version: str = VERSION) -> list[Finding]:
    return list(host.preflight_check(plan_of(params, ranks=ranks, version=version), Where.SUBMIT))
