"""The JSON Schema of experiment files, held against a JSON Schema validator."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from primus_core import discovery, hooks
from primus_core.explain.editor import experiment_schema
from primus_core.explain.vocabulary import vocabulary
from primus_core.yamlfile import load, loads

ROOT = Path(__file__).parents[2]
EXPERIMENTS = [
    path
    for path in sorted((ROOT / "examples").rglob("*.yaml"))
    if "modules" in load(str(path)).entries and "presets" not in path.parts
]

GOOD = """\
work_group: team
user_name: ${USER:me}
exp_name: first
workspace: ./output
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: llama_tiny.yaml
    overrides:
"""


@cache
def validator(framework: str) -> Draft202012Validator:
    hosts = hooks.load_host(discovery.scan(), backend=framework, launcher=None, preflight=False)
    schema = experiment_schema(framework, vocabulary(hosts, hosts.library_version()))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(json.loads(json.dumps(schema)))


def problems(text: str, framework: str = "megatron") -> list[str]:
    found = validator(framework).iter_errors(loads(text, "exp.yaml").value)
    return ["/".join(map(str, error.absolute_path)) for error in found]


def framework_of(path: Path) -> str:
    value: Any = load(str(path)).value
    return str(next(iter(value["modules"].values())).get("framework", "megatron"))  # a base may say it


@pytest.mark.parametrize(
    "path", [path for path in EXPERIMENTS if "plugin" not in path.parts], ids=lambda path: path.name
)
def test_every_example_fits(path: Path) -> None:
    """An editor finds nothing wrong with the experiment files of this repository."""
    assert problems(path.read_text(), framework_of(path)) == []


@pytest.mark.parametrize(
    "line",
    [
        "lr: 1e-5",
        'train_iters: "50"',
        "train_iters: 1e3",
        "train_iters: ${STEPS:50}",
        "bf16: ${BF16:true}",
        "lr: null",
        "moe_router_load_balancing_type: aux_loss",
        "moe_router_load_balancing_type: [aux_loss]",
        "norm_epsilon: 1e-6",
        "tokenizer_model: 0123",
        "accelerator: cpu",
        "recompute_granularity: ${MODE}",
    ],
)
def test_what_the_configuration_takes_is_taken(line: str) -> None:
    """Numbers as text, references to variables, null, scalars for lists and other spellings fit."""
    assert problems(f"{GOOD}      {line}\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "tensor_model_paralel_size: 2",
        "lr: fast",
        "bf16: 1",
        "bf16: off",
        "train_iters: 1.5",
        "train_iters: [1]",
        "accelerator: gpu",
        "recompute_granularity: everything",
    ],
)
def test_what_the_configuration_refuses_is_marked(line: str) -> None:
    """Unknown names, wrong types and values that are no choice are marked."""
    assert problems(f"{GOOD}      {line}\n") != []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("exp_name:", "exp_nam:"),
        ("framework: megatron", "framework: megatorn"),
        ("    overrides:", "    override:"),
        ("workspace: ./output\n", "workspace: ./output\ndirect: {gpu_per_node: 8}\n"),
        ("workspace: ./output\n", "workspace: ./output\nenv: {A-B: x}\n"),
        ("workspace: ./output\n", "workspace: ./output\ncontainer: {imge: x}\n"),
    ],
)
def test_what_does_not_belong_is_marked(old: str, new: str) -> None:
    """So are unknown keys of the file, its modules and sections."""
    assert old in GOOD
    assert problems(GOOD) == []
    assert problems(GOOD.replace(old, new)) != []


@pytest.mark.parametrize(
    "section",
    [
        "container: {image: x, shm-size: 8G, volumes: [/a], options: {memory: 1G, ulimit: [a, b]}}",
        "slurm: {N: 2, gpus_per_node: 8, time: 4:00:00, anything: x}",
    ],
)
def test_launchers_options_may_be_spelled_as_everywhere(section: str) -> None:
    """Every key by which a section may name an option is known to the editor too."""
    assert problems(GOOD.replace("workspace: ./output\n", f"workspace: ./output\n{section}\n")) == []


def test_names_and_modules_may_come_from_another_file() -> None:
    """A file that extends another one, or is extended, need not be complete."""
    assert problems("extends: base.yaml\nexp_name: second\n") == []


def test_an_editor_has_something_to_show() -> None:
    """Parameters have a description, their default and their choices."""
    parameters = validator("megatron").schema["$defs"]["parameters"]["properties"]
    assert "rate" in parameters["lr"]["description"]
    assert parameters["accelerator"]["default"] == "auto"
    assert {"enum": ["auto", "cpu", "cuda", "rocm"]} in parameters["accelerator"]["anyOf"]
    assert parameters["train_iters"]["$ref"] == "#/$defs/int"
    assert parameters["enable_primus_turbo"]["deprecated"] is True
