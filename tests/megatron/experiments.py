"""Experiments for the Megatron back end, made without files, and their plans."""

from __future__ import annotations

from primus_backend_megatron import host
from primus_core.experiment import Experiment, Layer, Leaf, Module, Origin, Value
from primus_core.outcome import Finding, Where
from primus_core.plan import Accelerator, RunPlan, Settings, Target, Translation
from primus_core.planning.make import Request, make_plan

VERSION = "0.19.2"

TINY: dict[str, Value] = {
    "num_layers": 4,
    "hidden_size": 128,
    "num_attention_heads": 8,
    "seq_length": 128,
    "vocab_size": 1000,
    "micro_batch_size": 2,
    "train_iters": 20,
    "lr": 1e-3,
    "train_data_path": "text/*.txt",
    "tokenizer_type": "HuggingFaceTokenizer",
    "tokenizer_model": "tokenizer.json",
}
"""The least that trains on data."""

MOCK: dict[str, Value] = {
    **{name: TINY[name] for name in TINY if name not in ("train_data_path", "tokenizer_type", "tokenizer_model")},
    "mock_data": True,
}
"""The least that trains at all."""


def leaf(value: Value, line: int, layer: Layer = "overrides") -> Leaf:
    return Leaf(value=value, origin=Origin(file="exp.yaml", line=line, layer=layer))


def module_of(params: dict[str, Value], layers: dict[str, Layer] | None = None, framework: str = "megatron") -> Module:
    """A module whose parameters stand in lines 10, 11, 12 ... of ``exp.yaml``."""
    leaves = {
        name: leaf(value, line, (layers or {}).get(name, "overrides"))
        for line, (name, value) in enumerate(params.items(), start=10)
    }
    return Module(
        name="pre_trainer",
        framework=framework,
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
    version: str = VERSION,
    workspace: str = "",
) -> Translation:
    module = module_of(params, layers)
    experiment = experiment_of(module, workspace or "/workspace")
    translation = host.translate_config(experiment, module, target_of(accelerator, version=version))
    assert translation is not None
    return translation


def plan_of(
    params: dict[str, Value],
    layers: dict[str, Layer] | None = None,
    *,
    ranks: int = 1,
    accelerator: Accelerator = "cpu",
    version: str = VERSION,
) -> RunPlan:
    module = module_of(params, layers)
    experiment, target = experiment_of(module), target_of(accelerator, ranks, version)
    translation = host.translate_config(experiment, module, target)
    assert translation is not None
    return make_plan(
        experiment,
        module,
        target=target,
        settings=Settings(values={}),
        translation=translation,
        prepare=(),
        request=Request(launcher="single", run_id="run"),
        distributions={},
    )


def findings(
    params: dict[str, Value], layers: dict[str, Layer] | None = None, *, ranks: int = 1, version: str = VERSION
) -> list[Finding]:
    return list(host.preflight_check(plan_of(params, layers, ranks=ranks, version=version), Where.SUBMIT))
